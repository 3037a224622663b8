//! Holds back the writes of a member of a group commit. A savepoint makes SQLite copy every page before it is changed, so
//! a member's writes wait until the member is done, and are dropped with it when it is refused. Only a member that asks
//! for its own writes, or that tries something within, gets a savepoint.

use super::Sqlite;
use crate::engine::{Anchor, Driver as _, written_table};
use crate::error::StoreError;
use crate::value::SqlValue;

/// The state of a member's writes.
#[derive(Default)]
pub(super) enum Member {
    /// No member is under way: writes are made at once.
    #[default]
    None,
    Waiting(Vec<Write>),
    /// The member's writes were made, behind a savepoint.
    Marked,
}

pub(super) struct Write {
    sql: &'static str,
    params: Vec<SqlValue>,
    /// True when the write changes a row that must be there.
    changes: bool,
}

impl Member {
    pub(super) fn begin(&mut self) {
        *self = Self::Waiting(Vec::new());
    }

    pub(super) fn has_writes(&self) -> bool {
        matches!(self, Self::Waiting(writes) if !writes.is_empty())
    }

    /// Returns true when a query may ask for a waiting write.
    pub(super) fn concerns(&self, query: &str) -> bool {
        match self {
            Self::Waiting(writes) => writes
                .iter()
                .any(|write| query.contains(written_table(write.sql))),
            Self::None | Self::Marked => false,
        }
    }
}

impl Sqlite {
    /// Has a write wait until its member is done. Gives its values back when there is nothing to wait for.
    pub(super) fn put_off(
        &mut self,
        sql: &'static str,
        params: Vec<SqlValue>,
        changes: bool,
    ) -> Option<Vec<SqlValue>> {
        match &mut self.member {
            Member::Waiting(writes) => {
                writes.push(Write {
                    sql,
                    params,
                    changes,
                });
                None
            }
            Member::None | Member::Marked => Some(params),
        }
    }

    /// Marks the place where the member began, and makes the waiting writes.
    pub(super) fn mark_member(&mut self) -> Result<(), StoreError> {
        let Member::Waiting(writes) = &mut self.member else {
            return Ok(());
        };
        let writes = std::mem::take(writes);
        self.check_transaction()?;
        self.mark(Anchor::Member.save())?;
        self.member = Member::Marked;
        self.write_all(writes)
    }

    /// Ends a member that is done: its writes stay.
    pub(super) fn keep_member(&mut self) -> Result<(), StoreError> {
        match std::mem::take(&mut self.member) {
            Member::None => Ok(()),
            Member::Marked => self.mark(Anchor::Member.release()),
            Member::Waiting(writes) if writes.is_empty() => Ok(()),
            Member::Waiting(writes) => {
                self.check_transaction()?;
                self.write_all(writes)
            }
        }
    }

    /// Ends a member that is refused: its writes are dropped, and the next member begins. Fails when a part of them is
    /// made and cannot be taken back alone.
    pub(super) fn drop_member(&mut self) -> Result<(), StoreError> {
        match &self.member {
            Member::Marked => {
                self.mark(Anchor::Member.back())?;
                self.mark(Anchor::Member.release())?;
                self.failed = false;
            }
            Member::Waiting(_) if self.is_sound() => {}
            Member::Waiting(_) | Member::None => return Err(gone()),
        }
        self.member.begin();
        Ok(())
    }

    fn write_all(&mut self, writes: Vec<Write>) -> Result<(), StoreError> {
        for Write {
            sql,
            params,
            changes,
        } in writes
        {
            let changed = self.run(sql, &params)?;
            if changes && changed != 1 {
                // Another program took the row away. The member runs again by itself, and then sees that.
                self.failed = true;
                return Err(gone());
            }
        }
        Ok(())
    }

    /// Refuses to write without a transaction: a SAVEPOINT would begin one, and each write would be one.
    fn check_transaction(&self) -> Result<(), StoreError> {
        match self.connection.is_autocommit() {
            true => Err(gone()),
            false => self.refuse_after_failure(),
        }
    }
}

fn gone() -> StoreError {
    StoreError::Collision("an earlier write failed".to_owned())
}
