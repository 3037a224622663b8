//! The projects that are served: those whose tokens were used since the start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use std::time::Duration;

use flightline::core::token::Presented;
use flightline::core::{Code, Refusal};
use flightline::token::TokenView;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

/// The most tokens that are cached; when there are more, the cache is emptied and they are looked up anew.
const TOKENS: usize = 4_096;
/// The most tokens that are looked up at once: a few of the places that reads have.
const LOOKED_UP: usize = 8;
/// The most tokens that wait to be looked up.
const WAITING: usize = 256;
/// The least time that a look-up takes when it finds nothing. It is longer than any look-up needs, so that the time does
/// not tell whether there is such a project, and a client can try only a few hundred a second.
pub(crate) const REFUSAL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct ServedProject {
    pub(crate) id: Arc<str>,
    /// The last revision, for readers that wait for the next.
    pub(crate) news: watch::Sender<u64>,
    /// True when this server wrote to the project since the last look.
    wrote: AtomicBool,
    /// True when another node wrote to the project since the last look.
    heard: AtomicBool,
}

impl ServedProject {
    /// Notes a write of this server to the project.
    pub(crate) fn note_write(&self) {
        self.wrote.store(true, Ordering::SeqCst);
    }

    /// Notes a write of another node to the project.
    pub(crate) fn note_news(&self) {
        self.heard.store(true, Ordering::SeqCst);
    }

    /// Returns true when another node wrote to the project since the last call.
    pub(crate) fn take_news(&self) -> bool {
        self.heard.swap(false, Ordering::SeqCst)
    }

    /// Returns true when this server wrote to the project since the last call.
    pub(crate) fn take_write(&self) -> bool {
        self.wrote.swap(false, Ordering::SeqCst)
    }
}

/// Bounds how many unknown tokens are looked up at once. Made-up tokens must not delay known ones, nor delay for long
/// those that will be known.
#[derive(Debug)]
pub(crate) struct TokenLookups {
    places: Semaphore,
    turns: Semaphore,
}

impl TokenLookups {
    /// Waits for a turn, unless too many do.
    pub(crate) async fn turn(&self) -> Result<[SemaphorePermit<'_>; 2], Refusal> {
        let too_many = || {
            let message = "too many tokens that are not known yet are being looked up";
            Refusal::new(Code::Unavailable, message).hint("retry in a moment")
        };
        let place = self.places.try_acquire().map_err(|_| too_many())?;
        let turn = self.turns.acquire().await.map_err(|_| too_many())?;
        Ok([place, turn])
    }
}

impl Default for TokenLookups {
    fn default() -> Self {
        Self {
            places: Semaphore::new(LOOKED_UP + WAITING),
            turns: Semaphore::new(LOOKED_UP),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Projects {
    /// The project whose repository the server runs in.
    home: Arc<ServedProject>,
    served: Mutex<BTreeMap<Arc<str>, Arc<ServedProject>>>,
    /// Tokens that were checked. Their rights never change; whether they are still valid is checked in every transaction.
    tokens: Mutex<BTreeMap<(String, String), Arc<TokenView>>>,
    /// The queue of tokens that were not checked yet.
    pub(crate) token_lookups: TokenLookups,
    state: PathBuf,
}

impl Projects {
    /// Serves the project whose repository the server runs in, with its state folder.
    pub(crate) fn new(home: &str, state: &Path) -> Self {
        let home = project(home);
        Self {
            served: Mutex::new(BTreeMap::from([(Arc::clone(&home.id), Arc::clone(&home))])),
            home,
            tokens: Mutex::default(),
            token_lookups: TokenLookups::default(),
            state: state.to_path_buf(),
        }
    }

    pub(crate) fn home(&self) -> &Arc<ServedProject> {
        &self.home
    }

    pub(crate) fn of(&self, id: &str) -> Arc<ServedProject> {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        match served.get(id) {
            Some(known) => Arc::clone(known),
            None => {
                let new = project(id);
                served.insert(Arc::clone(&new.id), Arc::clone(&new));
                new
            }
        }
    }

    /// Finds a project that is served already.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<ServedProject>> {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.get(id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<ServedProject>> {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.values().cloned().collect()
    }

    pub(crate) fn state_of(&self, id: &str) -> PathBuf {
        match id == &*self.home.id {
            true => self.state.clone(),
            false => self.state.join("projects").join(id),
        }
    }

    pub(crate) fn token(&self, presented: &Presented) -> Option<Arc<TokenView>> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.get(&key(presented)).cloned()
    }

    pub(crate) fn remember(&self, presented: &Presented, view: &Arc<TokenView>) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= TOKENS {
            tokens.clear();
        }
        tokens.insert(key(presented), Arc::clone(view));
    }
}

fn key(presented: &Presented) -> (String, String) {
    let id = format!("{} {}", presented.project, presented.id);
    (id, presented.sha256.clone())
}

fn project(id: &str) -> Arc<ServedProject> {
    Arc::new(ServedProject {
        id: Arc::from(id),
        news: watch::Sender::new(0),
        wrote: AtomicBool::new(false),
        heard: AtomicBool::new(false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn so_many_are_looked_up_so_many_wait_and_the_rest_come_back() {
        let token_lookups = TokenLookups::default();
        let mut looked_up = Vec::new();
        for _ in 0..LOOKED_UP {
            looked_up.push(token_lookups.turn().await.expect("a turn"));
        }
        let mut waiting: Vec<_> = (0..WAITING)
            .map(|_| Box::pin(token_lookups.turn()))
            .collect();
        for one in &mut waiting {
            let polled = std::future::poll_fn(|context| {
                std::task::Poll::Ready(one.as_mut().poll(context).is_pending())
            });
            assert!(polled.await, "it waits");
        }
        let refused = token_lookups.turn().await.expect_err("there are too many");
        assert_eq!((refused.code, refused.retryable), (Code::Unavailable, true));
        // A finished look-up makes room, in order, for one that waits and for one more.
        looked_up.pop();
        assert!(waiting.remove(0).await.is_ok());
        drop(waiting);
        assert!(token_lookups.turn().await.is_ok());
    }
}
