//! Reads keys from the terminal, one by one. The terminal is restored however the reading ends: by leaving, a panic, a
//! signal.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::thread;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::command::replay::{Decoder, Key};

pub struct KeyReader {
    before: Termios,
    decoder: Decoder,
    ready: VecDeque<Key>,
}

impl KeyReader {
    /// Begins to read keys: without waiting for the end of a line, and without showing them. Fails when stdin is no
    /// terminal.
    pub fn open() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        restore_on_signals(before.clone())?;
        let mut raw = before.clone();
        // Output stays as it is, and Ctrl-C is a key: so nothing ends us half-way.
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        let keys = Self {
            before,
            decoder: Decoder::default(),
            ready: VecDeque::new(),
        };
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(keys)
    }

    /// Waits for the next key; nothing when the terminal is gone.
    pub fn next_key(&mut self) -> io::Result<Option<Key>> {
        let mut buffer = [0; 64];
        while self.ready.is_empty() {
            match io::stdin().lock().read(&mut buffer)? {
                0 => return Ok(None),
                count => self.ready.extend(self.decoder.feed(&buffer[..count])),
            }
        }
        Ok(self.ready.pop_front())
    }
}

impl Drop for KeyReader {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Reads a line from the terminal without echo. Fails when stdin is no terminal.
pub fn read_hidden() -> io::Result<String> {
    let before = tcgetattr(io::stdin())?;
    restore_on_signals(before.clone())?;
    let mut hidden = before.clone();
    hidden.local_modes -= LocalModes::ECHO;
    tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
    let mut line = String::new();
    let read = io::stdin().read_line(&mut line);
    tcsetattr(io::stdin(), OptionalActions::Now, &before)?;
    read.map(|_| line)
}

/// Has a signal that ends this process restore the terminal first, and then end the process as it would have.
fn restore_on_signals(before: Termios) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
    thread::Builder::new()
        .name("terminal".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
                let _ = emulate_default_handler(signal);
            }
        })
        .map(drop)
}
