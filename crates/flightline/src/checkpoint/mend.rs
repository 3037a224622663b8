//! Healing: of several copies of a value one is enough.

use flightline_store::Mended;

use crate::desk::Desk;
use crate::error::Result;

/// Mends the values of which this transaction found one copy damaged, and says so. To be called before
/// something new is written over the copy that serves.
pub(crate) fn heal(desk: &mut Desk<'_, '_>) -> Result<Vec<String>> {
    let mut said = Vec::new();
    for damage in desk.tx.take_noticed() {
        let mended = match desk.tx.mend(&damage)? {
            Mended::Healed => "; repaired",
            // Written anew by this very transaction.
            Mended::Sound | Mended::Refused => "",
        };
        said.push(format!("{damage}{mended}"));
    }
    Ok(said)
}
