//! Runs a hook with an event on standard input, and a limit. No shell is asked, and no text of a settings file is run.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// The time between two checks that the program has ended.
const PAUSE: Duration = Duration::from_millis(2);
/// The most bytes of an answer that are read.
const MOST: u64 = 1024 * 1024;

pub enum Fired {
    /// The program ended by itself.
    Ended {
        /// The exit code; none when a signal ended it.
        code: Option<i32>,
        stdout: String,
        took: Duration,
    },
    /// The program did not end in time: it was killed, with everything it had started.
    Late,
}

pub fn fire(
    program: &Path,
    arguments: &[&str],
    folder: &Path,
    stdin: &str,
    patience: Duration,
) -> io::Result<Fired> {
    let began = Instant::now();
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // The process gets a group of its own, so that its children end with it.
        .process_group(0)
        .spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        let text = stdin.to_owned();
        // A hook may end before it has read everything.
        thread::spawn(move || drop(pipe.write_all(text.as_bytes())));
    }
    let (send, answer) = mpsc::channel();
    if let Some(pipe) = child.stdout.take() {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            drop(pipe.take(MOST).read_to_end(&mut bytes));
            drop(send.send(bytes));
        });
    }
    loop {
        if let Some(status) = child.try_wait()? {
            let took = began.elapsed();
            let bytes = answer.recv_timeout(patience).unwrap_or_default();
            return Ok(Fired::Ended {
                code: status.code(),
                stdout: String::from_utf8_lossy(&bytes).into_owned(),
                took,
            });
        }
        if began.elapsed() > patience {
            end(&mut child);
            return Ok(Fired::Late);
        }
        thread::sleep(PAUSE);
    }
}

fn end(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_given_up_with_what_it_started() {
        let began = Instant::now();
        let arguments = ["-c", "sleep 1000 & sleep 1000"];
        let fired = fire(
            Path::new("/bin/sh"),
            &arguments,
            Path::new("/"),
            "",
            Duration::from_millis(50),
        );
        assert!(matches!(fired, Ok(Fired::Late)));
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}
