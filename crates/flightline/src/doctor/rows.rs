//! What subjects are found by: the columns beside a document say what the document says.

use flightline_core::Subject;
use flightline_core::agent::{Agent, Step};
use flightline_core::checkpoint::{Checkpoint, Milestone};
use flightline_core::effect::Effect;
use flightline_core::lock::Lock;
use flightline_core::message::{Delivery, Message};
use flightline_core::mission::Mission;
use flightline_core::note::Note;
use flightline_core::setting::{Briefing, Recovery};
use flightline_core::sortie::{Review, Sortie, SortieError, SortieFile, Subtask};
use flightline_store::{Find, Tx};

use crate::error::Result;

/// The rows that lead astray. Settings are found by their ids alone.
pub(super) fn astray(tx: &mut Tx<'_>) -> Result<Vec<String>> {
    let mut found = of::<Mission>(tx)?;
    found.extend(of::<Sortie>(tx)?);
    found.extend(of::<Subtask>(tx)?);
    found.extend(of::<SortieFile>(tx)?);
    found.extend(of::<SortieError>(tx)?);
    found.extend(of::<Review>(tx)?);
    found.extend(of::<Agent>(tx)?);
    found.extend(of::<Step>(tx)?);
    found.extend(of::<Lock>(tx)?);
    found.extend(of::<Message>(tx)?);
    found.extend(of::<Delivery>(tx)?);
    found.extend(of::<Note>(tx)?);
    found.extend(of::<Effect>(tx)?);
    found.extend(of::<Checkpoint>(tx)?);
    found.extend(of::<Milestone>(tx)?);
    found.extend(of::<Recovery>(tx)?);
    found.extend(of::<Briefing>(tx)?);
    Ok(found)
}

fn of<S: Subject>(tx: &mut Tx<'_>) -> Result<Vec<String>> {
    let (rows, values) = (tx.rows(S::KIND, Find::All)?, tx.find::<S>(Find::All)?);
    let astray = rows.into_iter().zip(values).filter(|(row, value)| {
        let keys = value.keys();
        row.id != value.key()
            || row.mission != keys.mission.map(|id| id.to_string())
            || row.parent != keys.parent
            || row.agent != keys.agent.map(|id| id.to_string())
            || row.name != keys.name
            || row.status != keys.status
    });
    Ok(astray
        .map(|(row, _)| format!("{} {} is listed as what it is not", S::KIND, row.id))
        .collect())
}
