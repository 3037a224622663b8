//! Programs that a test starts: sealed off from this machine, waited for with a bound, and ended with the test.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The folders of the programs that tests may use.
pub const PATH: &str = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Makes a command that runs in this folder with this home, and sees nothing else of the machine's environment.
pub fn sealed(program: impl AsRef<OsStr>, folder: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(folder)
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", home)
        .stdin(Stdio::null());
    command
}

/// Writes a shell script that can be run, by another process: a child that another test starts meanwhile would hold a file
/// that this process writes open, and the kernel runs no such file.
pub fn write_script(file: &Path, script: &str) {
    let mut writer = Command::new("/bin/sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(file)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut pipe = writer.stdin.take().expect("a pipe");
    let text = format!("#!/bin/sh\n{script}\n");
    pipe.write_all(text.as_bytes()).expect("written");
    drop(pipe);
    assert!(writer.wait().expect("it ends").success());
}

/// A process that ends with this value at the latest.
pub struct ChildGuard(Option<Child>);

impl ChildGuard {
    /// Starts a command.
    pub fn spawn(command: &mut Command) -> Self {
        Self(Some(command.spawn().expect("the program starts")))
    }

    pub fn sleeper() -> Self {
        Self::spawn(sealed("sleep", Path::new("/"), Path::new("/")).arg("300"))
    }

    /// Ends the process now, and waits until it has ended.
    pub fn end(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Releases the process, which from now on ends by itself.
    pub fn into_child(mut self) -> Child {
        self.0.take().expect("a process")
    }
}

impl Deref for ChildGuard {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("a process")
    }
}

impl DerefMut for ChildGuard {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("a process")
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until a condition holds, checking it again and again.
pub fn until(what: &str, within: Duration, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the first line that comes through a pipe.
pub fn first_line(pipe: impl Read + Send + 'static, within: Duration) -> String {
    let (say, said) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(pipe).read_line(&mut line);
        let _ = say.send(line);
    });
    said.recv_timeout(within).expect("a line")
}
