//! Files that a person changed after the install, and entries of older versions.
