//! Imports documents: one rule for all dialects ([`DocumentArrival`]), whatever brings them.
//!
//! A document's content happened when it says, never later than now, and takes nothing back that is newer than itself.

use flightline_core::dialect::{
    Dialect, DialectDocument, DocumentArrival, Json, Original, changes, merge, says_the_same,
};
use flightline_core::event::EventType;
use flightline_core::redact::shown;
use flightline_core::{Code, Refusal, Time};
use flightline_store::{Find, StoreError};
use serde_json::json;

use super::{
    Draft, ImportDocuments, ImportedDocument, Incoming, epic, find, named, orchestrator, outgoing,
    parsed, read, recovery, sitebuilder, thing,
};
use crate::error::{Error, Result};
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;

impl Operation for ImportDocuments {
    const NAME: &'static str = "import_documents";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = Vec<ImportedDocument>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<ImportedDocument>> {
        if self.dialect == Dialect::Orchestrator {
            return orchestrator::import::take_in(ctx, self);
        }
        let mut order: Vec<(usize, &Incoming)> = self.documents.iter().enumerate().collect();
        order.sort_by_key(|(place, incoming)| (turn(self.dialect, incoming), *place));
        let mut taken = Vec::with_capacity(order.len());
        for (place, incoming) in order {
            let one = self.by_itself(ctx, incoming, |ctx| self.take_in(ctx, incoming))?;
            taken.push((place, one));
        }
        taken.sort_by_key(|(place, _)| *place);
        Ok(taken.into_iter().map(|(_, one)| one).collect())
    }
}

/// Returns the key by which documents are ordered: the oldest first, a document without a time last, and of one
/// moment a complete document after the rest.
pub(crate) fn turn(dialect: Dialect, incoming: &Incoming) -> (Time, bool) {
    let end = Time::from_millis(i64::MAX);
    let document = DialectDocument::read(dialect, &incoming.text).ok();
    let part = || sitebuilder::part_written(dialect, &incoming.text);
    let written = match document {
        Some(document) => document.written(),
        None => part(),
    };
    (
        written.unwrap_or(end),
        flightline_core::dialect::sitebuilder::is_archive(&incoming.file),
    )
}

/// A document merged with the stored state, and when it happened.
struct Arriving {
    document: DialectDocument,
    /// True when the document was merged with the stored state: entries that it does not list were taken out.
    is_whole: bool,
    at: Time,
}

impl ImportDocuments {
    /// Takes one of several documents in. Its faults concern no other; alone, it is the answer.
    pub(super) fn by_itself(
        &self,
        ctx: &mut OpContext<'_, '_>,
        incoming: &Incoming,
        take_in: impl FnOnce(&mut OpContext<'_, '_>) -> Result<ImportedDocument>,
    ) -> Result<ImportedDocument> {
        let name = |error| match error {
            Error::Refused(refusal) => named(*refusal, &incoming.file).into(),
            error => error,
        };
        if self.documents.len() == 1 {
            return take_in(ctx).map_err(name);
        }
        match ctx.attempt(take_in)?.map_err(name) {
            Ok(taken) => Ok(taken),
            Err(Error::Refused(refusal)) => Ok(ImportedDocument::refused(&incoming.file, *refusal)),
            Err(Error::Store(error @ (StoreError::TooLarge { .. } | StoreError::Corrupt(_)))) => {
                let refusal = Error::Store(error).into_refusal();
                Ok(ImportedDocument::refused(&incoming.file, refusal))
            }
            Err(error) => Err(error),
        }
    }

    /// Finds an identical document that was imported before. Its subject may have changed since: those changes stay.
    fn taken_before(
        &self,
        ctx: &mut OpContext<'_, '_>,
        incoming: &Incoming,
    ) -> Result<Option<ImportedDocument>> {
        let Ok(text) = Json::parse(&incoming.text) else {
            return Ok(None);
        };
        let text = text.cleaned();
        for original in ctx.tx.find::<Original>(Find::All)? {
            let same = original.dialect == self.dialect
                && Json::parse(&original.text).is_ok_and(|kept| kept == text);
            if same {
                return Ok(Some(ImportedDocument::known(
                    incoming,
                    original.of,
                    original.name,
                )));
            }
        }
        Ok(None)
    }

    fn take_in(
        &self,
        ctx: &mut OpContext<'_, '_>,
        incoming: &Incoming,
    ) -> Result<ImportedDocument> {
        let dialect = self.dialect;
        let first_rev = ctx.tx.next_rev();
        if incoming.before.is_none()
            && !incoming.even_if_older
            && let Some(known) = self.taken_before(ctx, incoming)?
        {
            return Ok(known);
        }
        let (document, was) = match read(dialect, &incoming.text, &incoming.file) {
            Ok(document) => (document, None),
            // A part of a document is an update of the task it belongs to.
            Err(refusal) => match self.completed(ctx, incoming)? {
                Some((whole, at)) => (whole, Some(at)),
                None => return Err(refusal.into()),
            },
        };
        match dialect {
            Dialect::Sitebuilder if was.is_none() => sitebuilder::check(ctx, &document)?,
            Dialect::Epic => epic::check(ctx, &document)?,
            Dialect::Sitebuilder | Dialect::Recovery | Dialect::Orchestrator => {}
        }
        let thing = find(ctx, &document)?;
        let before = match &thing {
            Some(thing) => Some(parsed(&outgoing(ctx, thing)?)?),
            None => None,
        };
        let Arriving {
            document,
            is_whole,
            at,
        } = match was {
            Some(at) => Arriving {
                document,
                is_whole: false,
                at,
            },
            None => {
                let theirs = Json::clone(&document).cleaned();
                let name = document.name();
                let arriving = self.arriving(ctx, incoming, document, thing.as_ref());
                match (arriving, thing, &before) {
                    // Older, but it says nothing else.
                    (Err(Error::Refused(refusal)), Some(thing), Some(known))
                        if refusal.code == Code::Changed && says_the_same(known, &theirs) =>
                    {
                        return Ok(ImportedDocument::known(incoming, thing.of, name));
                    }
                    (arriving, ..) => arriving?,
                }
            }
        };
        // The kept text stays as it was written; its times are limited to now.
        let mut limited = document.clone();
        limited.not_after(ctx.now());
        let stored = match dialect {
            Dialect::Epic => epic::store(ctx, &limited, at)?,
            Dialect::Sitebuilder => {
                sitebuilder::store(ctx, &limited, is_whole, self.mission.as_deref(), at)?
            }
            Dialect::Recovery => {
                let before = incoming.before.as_deref();
                match recovery::store(ctx, &limited, before, self.mission.as_deref())? {
                    Some(stored) => stored,
                    None => return Ok(ImportedDocument::nothing(incoming)),
                }
            }
            Dialect::Orchestrator => {
                return Err(Refusal::new(
                    Code::InvalidInput,
                    format!("`{}` is not taken in yet", dialect.as_str()),
                )
                .into());
            }
        };
        self.keep(ctx, incoming, &document, &stored)?;
        let after = match self::thing(ctx, dialect, &stored.of)? {
            Some(thing) => Some(parsed(&outgoing(ctx, &thing)?)?),
            None => None,
        };
        let before = before.or_else(|| {
            let before = incoming.before.as_deref()?;
            Json::parse(before).ok()
        });
        Ok(ImportedDocument {
            file: incoming.file.clone(),
            of: stored.of,
            name: stored.name,
            changed: ctx.tx.next_rev() != first_rev,
            changes: match (before, after) {
                (Some(before), Some(after)) => changes(&before, &after),
                (None, _) | (_, None) => vec!["new".to_owned()],
            },
            warnings: stored.warnings,
            refused: None,
        })
    }

    /// The whole document that a part of one belongs to, with that part applied, and when that happened.
    fn completed(
        &self,
        ctx: &mut OpContext<'_, '_>,
        incoming: &Incoming,
    ) -> Result<Option<(DialectDocument, Time)>> {
        if self.dialect != Dialect::Sitebuilder {
            return Ok(None);
        }
        let completed = sitebuilder::completed(ctx, &incoming.file, &incoming.text)?;
        let Some(completed) = completed else {
            return Ok(None);
        };
        let known = completed.known;
        let at = self.judge(ctx, incoming, completed.written, known)?.1;
        Ok(Some((completed.whole, at)))
    }

    /// A document as it arrives, merged with the stored state of the same thing.
    fn arriving(
        &self,
        ctx: &mut OpContext<'_, '_>,
        incoming: &Incoming,
        mut document: DialectDocument,
        thing: Option<&Draft>,
    ) -> Result<Arriving> {
        let now = thing.map(|thing| outgoing(ctx, thing)).transpose()?;
        let known = match self.dialect {
            Dialect::Epic => epic::known(ctx, &document)?,
            Dialect::Recovery => recovery::known(ctx)?,
            Dialect::Sitebuilder => sitebuilder::last_update(ctx, &document)?,
            Dialect::Orchestrator => None,
        };
        let (arrival, at) = self.judge(ctx, incoming, document.written(), known)?;
        let mut is_whole = false;
        if incoming.even_if_older {
            document.not_before(at);
        } else if let (Some(before), Some(now)) = (&incoming.before, &now) {
            let (before, now) = (parsed(before)?, parsed(now)?);
            let merged = match arrival {
                DocumentArrival::Alongside => merge(&before, &now, &document),
                DocumentArrival::Newest | DocumentArrival::Older => merge(&before, &document, &now),
            };
            document = read(self.dialect, &merged.pretty(&[]), &incoming.file)?;
            is_whole = true;
        }
        Ok(Arriving {
            document,
            is_whole,
            at,
        })
    }

    /// Refuses a document that is older than the stored state. Returns its relation to that state, and the time of its
    /// changes: its own, and not before the last stored change.
    fn judge(
        &self,
        ctx: &OpContext<'_, '_>,
        incoming: &Incoming,
        written: Option<Time>,
        known: Option<Time>,
    ) -> Result<(DocumentArrival, Time)> {
        let before = incoming.before.as_deref();
        let shown =
            before.and_then(|text| DialectDocument::read(self.dialect, text).ok()?.written());
        let arrival = DocumentArrival::of(written, shown, known);
        if arrival == DocumentArrival::Older && !incoming.even_if_older {
            return Err(older(written, known).into());
        }
        let now = ctx.now();
        let at = written.unwrap_or(now).max(known.unwrap_or(Time::EARLIEST));
        Ok((arrival, at.min(now)))
    }

    /// Keeps a document, so that its fields that Flightline has no words for are exported again.
    fn keep(
        &self,
        ctx: &mut OpContext<'_, '_>,
        incoming: &Incoming,
        document: &DialectDocument,
        stored: &super::Stored,
    ) -> Result<()> {
        let dialect = self.dialect;
        let text = Json::clone(document).cleaned().pretty(&[]);
        // Cleaning can make two keys one: an unreadable result is not kept.
        read(dialect, &text, &incoming.file)?;
        let ours = thing(ctx, dialect, &stored.of)?
            .map_or_else(|| text.clone(), |thing| thing.document.write());
        let before = ctx.tx.get::<Original>(&Original::id(dialect, &stored.of))?;
        let original = Original {
            dialect,
            of: stored.of.clone(),
            name: stored.name.clone(),
            file: shown(&incoming.file),
            text,
            ours,
            at: ctx.now(),
        };
        let is_news = before.is_none_or(|before| {
            parsed(&before.text).ok() != parsed(&original.text).ok() || before.ours != original.ours
        });
        if is_news {
            let data = json!({ "dialect": dialect, "file": original.file, "of": original.of });
            ctx.tx.set(EventType::DocumentImported, &original, &data)?;
        }
        Ok(())
    }
}

/// Builds the refusal of a document that is older than the stored state.
fn older(written: Option<Time>, known: Option<Time>) -> Refusal {
    let at = |time: Option<Time>| time.map(Time::to_seconds).unwrap_or_default();
    Refusal::new(
        Code::Changed,
        format!(
            "it was written at {}, but the store has newer data, of {}",
            at(written),
            at(known)
        ),
    )
    .hint("read the file again before you write it, with the time of your change in it")
}
