//! Records what the care for a store does: repairs, and values and events that are set aside.

use flightline_core::Kind;
use flightline_core::event::{Change, EventType};
use serde_json::Value as Json;

use super::Tx;
use crate::error::StoreError;
use crate::table::event::{self, NewEvent};

/// The change of a subject that the care for the store makes, with the text and the hash of its value.
pub(crate) type CareValue<'a> = (Change, Option<(&'a str, &'a str)>);

pub(crate) const NO_VALUE: CareValue<'static> = (Change::None, None);

impl Tx<'_> {
    /// Records what the care for the store did to a subject, in Flightline's name. Returns the event's revision.
    pub(crate) fn record_care(
        &mut self,
        event: EventType,
        (kind, id): (Kind, &str),
        mission: Option<String>,
        data: &Json,
        (change, value): CareValue<'_>,
    ) -> Result<u64, StoreError> {
        if let Some(cache) = &mut self.cache {
            cache.forget_events();
        }
        let (project, rev) = (self.project.id.clone(), self.allocate_rev());
        self.project.seal = event::insert(
            self.driver,
            &mut self.trace,
            &NewEvent {
                project: &project,
                rev,
                step: self.step,
                at: self.now,
                kind: event,
                mission,
                subject_kind: kind,
                subject: id,
                actor: "flightline",
                epoch: None,
                data,
                change,
                after: value.map(|(text, _)| text),
                base: None,
                sha: value.map(|(_, sha)| sha),
                prev: &self.project.seal,
            },
        )?;
        Ok(rev)
    }
}
