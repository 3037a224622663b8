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

/// How many tokens are known at once; then they are looked up anew.
const TOKENS: usize = 4_096;
/// So many tokens that are not known are looked up at once: a few of the places that reads have.
const LOOKED_UP: usize = 8;
/// So many more wait for that.
const WAITING: usize = 256;
/// A look-up that finds nothing takes at least so long: longer than any look-up needs, so that its time does not tell
/// whether there is such a project; and a client tries no more than a few hundred a second.
pub(crate) const REFUSAL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct ServedProject {
    pub(crate) id: Arc<str>,
    /// The last revision, for those who wait for the next.
    pub(crate) news: watch::Sender<u64>,
    /// Whether something was written to it here since the last look.
    wrote: AtomicBool,
    /// Whether something was written to it elsewhere.
    heard: AtomicBool,
}

impl ServedProject {
    /// Something was written to it here.
    pub(crate) fn note_write(&self) {
        self.wrote.store(true, Ordering::SeqCst);
    }

    /// Something was written to it elsewhere.
    pub(crate) fn note_news(&self) {
        self.heard.store(true, Ordering::SeqCst);
    }

    /// Whether something was written to it elsewhere since this was asked last.
    pub(crate) fn take_news(&self) -> bool {
        self.heard.swap(false, Ordering::SeqCst)
    }

    /// Whether something was written to it here since this was asked last.
    pub(crate) fn take_write(&self) -> bool {
        self.wrote.swap(false, Ordering::SeqCst)
    }
}

/// Tokens that are not known yet, and how many of them are looked up at once. Made-up tokens must not delay known ones, nor
/// delay for long those that will be known.
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
    /// The one whose repository this is.
    home: Arc<ServedProject>,
    served: Mutex<BTreeMap<Arc<str>, Arc<ServedProject>>>,
    /// Tokens that were checked. What they may do never changes; whether they still open is looked at in every
    /// transaction.
    tokens: Mutex<BTreeMap<(String, String), Arc<TokenView>>>,
    /// The tokens that were not checked yet.
    pub(crate) token_lookups: TokenLookups,
    state: PathBuf,
}

impl Projects {
    /// With the project whose repository this is, and its state folder.
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

    /// One that is served already.
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
