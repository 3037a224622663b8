//! What stands between a server and PostgreSQL, and breaks connections: at any time, or around a COMMIT,
//! where it matters.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use flightline_testkit::commits::Commits;

/// How the next commit is broken.
pub enum Cut {
    /// The database never hears of it.
    Before,
    /// It is made, and the answer is lost.
    After,
    /// The connection is lost at once, and the database hears of it only after this time: meanwhile its
    /// transaction is open, and nobody is there any more.
    Ghost(Duration),
    /// It is held up: says so, and goes on when told.
    Held(Sender<()>, Receiver<()>),
}

/// What stands before a PostgreSQL.
pub struct Proxy {
    pub port: u16,
    inside: Arc<Inside>,
}

struct Inside {
    to: u16,
    next: Mutex<Option<Cut>>,
    armed: AtomicBool,
    open: Mutex<Vec<(TcpStream, TcpStream)>>,
    broken: AtomicU64,
    over: AtomicBool,
}

impl Proxy {
    /// Stands before the PostgreSQL at this port.
    pub fn to(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let inside = Arc::new(Inside {
            to,
            next: Mutex::new(None),
            armed: AtomicBool::new(false),
            open: Mutex::new(Vec::new()),
            broken: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        let taking = Arc::clone(&inside);
        thread::spawn(move || {
            for near in listener.incoming() {
                if taking.over.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(near) = near {
                    taking.join(near);
                }
            }
        });
        Self { port, inside }
    }

    /// Breaks the next commit.
    pub fn break_commit(&self, how: Cut) {
        *self.inside.next.lock().unwrap() = Some(how);
        self.inside.armed.store(true, Ordering::SeqCst);
    }

    /// How many commits were broken.
    pub fn broken(&self) -> u64 {
        self.inside.broken.load(Ordering::SeqCst)
    }

    /// Breaks every connection there is.
    pub fn cut_all(&self) {
        for (near, far) in self.inside.open.lock().unwrap().drain(..) {
            part(&near, &far);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.inside.over.store(true, Ordering::SeqCst);
        self.cut_all();
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn part(near: &TcpStream, far: &TcpStream) {
    // One that is closed already is what is wanted.
    let _ = near.shutdown(Shutdown::Both);
    let _ = far.shutdown(Shutdown::Both);
}

impl Inside {
    /// Connects one who came with the database, until either goes.
    fn join(self: &Arc<Self>, near: TcpStream) {
        let Ok(far) = TcpStream::connect(("127.0.0.1", self.to)) else {
            return;
        };
        for stream in [&near, &far] {
            stream.set_nodelay(true).unwrap();
        }
        let pair = || (near.try_clone().unwrap(), far.try_clone().unwrap());
        self.open.lock().unwrap().push(pair());
        let mute = Arc::new(AtomicBool::new(false));
        let (inside, muted, (from, to)) = (Arc::clone(self), Arc::clone(&mute), pair());
        thread::spawn(move || {
            inside.out(&from, &to, &muted);
            part(&from, &to);
        });
        let (to, from) = pair();
        thread::spawn(move || {
            back(&from, &to, &mute);
            part(&from, &to);
        });
    }

    /// What a server says to the database.
    fn out(&self, mut from: &TcpStream, mut to: &TcpStream, mute: &AtomicBool) {
        let (mut bytes, mut commits) = (vec![0; 256 * 1024], Commits::default());
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            let said = &bytes[..length];
            if commits.are_in(said) && self.armed.swap(false, Ordering::SeqCst) {
                let cut = self.next.lock().unwrap().take();
                self.broken.fetch_add(1, Ordering::SeqCst);
                match cut {
                    Some(Cut::Before) => return,
                    Some(Cut::After) => mute.store(true, Ordering::SeqCst),
                    Some(Cut::Ghost(late)) => {
                        mute.store(true, Ordering::SeqCst);
                        let _ = from.shutdown(Shutdown::Both);
                        thread::sleep(late);
                        let _ = to.write_all(said);
                        // Until the answer is there, which the other direction drops.
                        let _ = to.peek(&mut [0]);
                        return;
                    }
                    Some(Cut::Held(held, go_on)) => {
                        let _ = held.send(());
                        let _ = go_on.recv();
                    }
                    None => {}
                }
            }
            if to.write_all(said).is_err() {
                return;
            }
        }
    }
}

/// What the database answers.
fn back(mut from: &TcpStream, mut to: &TcpStream, mute: &AtomicBool) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        if mute.load(Ordering::SeqCst) || to.write_all(&bytes[..length]).is_err() {
            return;
        }
    }
}
