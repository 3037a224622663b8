//! Ids as people read them.

use std::collections::BTreeMap;

use flightline_core::Kind;
use serde::{Deserialize, Serialize};

use crate::desk::Desk;
use crate::error::Result;
use crate::fleet::{Access, Operation};

/// Asks for every id of some kinds, so that they can be shortened or completed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListIds {
    /// The kinds.
    pub kinds: Vec<Kind>,
}

/// Every id of each kind, in byte order, and what each is called.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ids {
    /// The ids.
    pub ids: BTreeMap<Kind, Vec<String>>,
}

impl Operation for ListIds {
    const NAME: &'static str = "list_ids";
    const ACCESS: Access = Access::Read;
    type Outcome = Ids;

    fn decide(&self, desk: &mut Desk<'_, '_>) -> Result<Ids> {
        let ids = self
            .kinds
            .iter()
            .map(|kind| Ok((*kind, desk.tx.ids(*kind)?)))
            .collect::<Result<_>>()?;
        Ok(Ids { ids })
    }
}
