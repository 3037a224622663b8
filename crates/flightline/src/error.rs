//! Defines the error of an operation: a refusal of its own, or a failure of the store.

use flightline_core::Refusal;
use flightline_store::AsStoreError;

pub type Result<T> = std::result::Result<T, Error>;

/// The cause of an operation's failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Refused(Box<Refusal>),
    #[error(transparent)]
    Store(#[from] flightline_store::StoreError),
}

impl Error {
    /// Returns true when stored data is damaged or missing, which other copies may mend.
    pub fn is_damage(&self) -> bool {
        use flightline_store::StoreError::{Corrupt, Thinned};
        match self {
            Self::Refused(refusal) => refusal.code == flightline_core::Code::Integrity,
            Self::Store(error) => matches!(error, Corrupt(_) | Thinned { .. }),
        }
    }

    /// Converts this error into a refusal, which every front end shows.
    pub fn into_refusal(self) -> Refusal {
        match self {
            Self::Refused(refusal) => *refusal,
            Self::Store(error) => error.into(),
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        error.into_refusal()
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl AsStoreError for Error {
    fn as_store_error(&self) -> Option<&flightline_store::StoreError> {
        match self {
            Self::Store(error) => Some(error),
            Self::Refused(_) => None,
        }
    }
}
