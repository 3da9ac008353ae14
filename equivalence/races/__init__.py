"""Kernels watched for races and wrong addresses, without a GPU; the command line enters.

The compiler's own first form of a kernel (TTIR) is executed on the CPU, one program instance after
the other, by ttsem, and every access is kept. Two instances that touch a byte which one of them
writes race, whatever they write: on a device they run in any order. An access outside the bytes of
the tensors that a launch was given, each seen by itself, is out of bounds.

What this ring does not see: races of threads within a program instance, and what the compiler makes
of the kernel afterwards; memory between the elements of a strided tensor counts as its own.
Nothing of ttsem is imported before a launch is watched.
"""
