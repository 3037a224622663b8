//! Repairs of everything but values: events, the rows beside the journal, indexes.

use flightline_store::Mended;
use flightline_store::verify::Examination;

use crate::error::Result;
use crate::fleet::Fleet;

/// Returns true when an examination found damage that can be repaired, or set aside.
pub(super) fn are_ill(examined: &Examination) -> bool {
    examined.schema
        || examined.behind
        || !examined.troubles.is_empty()
        || !examined.stale.is_empty()
        || !examined.strays.is_empty()
}

/// Repairs the tables where that is possible. Returns a sentence for each repair, and for each failure.
pub(super) fn mend(fleet: &mut Fleet, examined: &Examination) -> Result<Vec<String>> {
    let mut done = Vec::new();
    if examined.schema {
        match fleet.store()?.mend_schema() {
            Ok(made) => done.extend(made),
            Err(error) => done.push(format!("the schema cannot be repaired: {error}")),
        }
    }
    if examined.behind {
        // The next write records the loss, and goes on in a new history: no number is handed out twice.
        fleet
            .store()?
            .write(|_| Ok::<_, flightline_store::StoreError>(()))?;
        done.push(
            "the loss of acknowledged changes was recorded; a new history continues from the present state"
                .to_owned(),
        );
    }
    // The row from which everything else goes on comes first.
    for stale in examined.stale.iter().rev() {
        done.push(fleet.store()?.write(|tx| tx.mend_beside(stale))?);
    }
    for (kind, id) in &examined.strays {
        fleet.store()?.write(|tx| tx.drop_stray(kind, id))?;
        done.push(format!("{kind} {id} was made by no event; removed"));
    }
    for trouble in &examined.troubles {
        if fleet.store()?.write(|tx| tx.mend_event(trouble))? == Mended::Healed {
            done.push(format!("{trouble}; repaired"));
        }
    }
    Ok(done)
}

/// Sets the remaining damage aside: it is reported from now on, and waits for no repair. Returns sentences about it.
pub(super) fn set_aside(fleet: &mut Fleet) -> Result<Vec<String>> {
    let left = fleet.store()?.read(|tx| tx.examine())?.troubles;
    if left.is_empty() {
        return Ok(Vec::new());
    }
    fleet.store()?.write(|tx| {
        for trouble in &left {
            tx.set_aside(trouble)?;
        }
        Ok::<_, flightline_store::StoreError>(())
    })?;
    let said = left
        .iter()
        .map(|trouble| format!("{trouble}; it has no copy, and was set aside"));
    Ok(said.collect())
}
