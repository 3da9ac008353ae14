"""What several members are made of; `wrong` and `right` enter."""
