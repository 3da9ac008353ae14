// What an artifact's C++ begins with, in place of torch's own header, which it includes.
//
// torch reads the name of a device, as "cpu" or "cuda:1", by a regular expression. Compiling what
// runs those takes as long as all the rest of a small artifact. Artifacts are for the CPU, so that
// is the one name that is known here; torch's own code refuses others.
// `fast.compiled.replaced.quicker` looks whether torch still reads the name so.

#include <regex>
#include <string>

namespace std::device_name {

struct Part {
  string text;
  bool matched = false;
  string str() const { return text; }
};

struct Parts {
  Part kind, index;
  const Part& operator[](size_t group) const { return group == 1 ? kind : index; }
};

struct Pattern {
  explicit Pattern(const char*) {}
};

inline bool match(const string& name, Parts& parts, const Pattern&) {
  parts.kind = {name, true};
  return name == "cpu";
}

} // namespace std::device_name

#define regex device_name::Pattern
#define smatch device_name::Parts
#define regex_match device_name::match
#include <torch/csrc/inductor/aoti_runtime/model_base.h>
#undef regex
#undef smatch
#undef regex_match

#include <torch/csrc/inductor/aoti_include/cpu.h>
