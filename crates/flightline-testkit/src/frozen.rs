//! A folder in which nothing can be changed any more, as when its file system becomes read-only.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// A folder in which nothing can be changed, not even through files that are open, until this value goes. (Mounting its
/// file system read-only is refused while a program has a file open to be written.)
pub struct Frozen<'p>(&'p Path);

impl<'p> Frozen<'p> {
    /// Freezes the folder. Returns none where the file system or this user cannot do it, and prints that.
    pub fn new(folder: &'p Path) -> Option<Self> {
        let frozen = Self(folder);
        if frozen.change("+i") {
            return Some(frozen);
        }
        // Past the capture of a test's output: nobody may take this for tested.
        let _ = writeln!(
            std::io::stderr(),
            "NOT RUN: `chattr +i` does not work here, so nothing met files that cannot be written"
        );
        None
    }

    fn change(&self, attribute: &str) -> bool {
        let mut chattr = Command::new("chattr");
        let changed = chattr.args(["-R", attribute]).arg(self.0).output();
        changed.is_ok_and(|changed| changed.status.success())
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.change("-i");
    }
}
