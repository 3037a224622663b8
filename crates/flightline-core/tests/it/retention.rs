//! What a page of checkpoints says of them is what the whole list says.

use flightline_core::checkpoint::Trigger;
use flightline_core::retention::{MissionCompletion, Retention, RetentionCandidate, guards};
use flightline_core::{CheckpointId, MissionId, Time};
use uuid::Uuid;

#[test]
fn how_many_are_newer_is_enough_to_know_what_guards_a_checkpoint() {
    let day = 86_400_000;
    let now = Time::from_millis(0).plus(1_000 * day);
    let one = |number: u64, flags: u32, old: u64| RetentionCandidate {
        id: CheckpointId::new(Uuid::from_u128(number.into())),
        mission: MissionId::new(Uuid::from_u128(1)),
        rev: number,
        at: now.minus(if number < old { 9 * day } else { day }),
        trigger: Trigger::Progress,
        pinned: flags >> (2 * number) & 1 == 1,
        verified: flags >> (2 * number + 1) & 1 == 1,
        archived: false,
        emergency: false,
        bytes: 0,
    };
    let limits = [(1, 2), (2, 4), (3, 100)];
    let ends = [None, Some(now.minus(3 * day)), Some(now.minus(90 * day))];
    let cases = limits
        .iter()
        .flat_map(|limits| ends.map(|end| (limits, end)));
    for ((keep, most), completed_at) in cases {
        let policy = Retention {
            keep: *keep,
            most: *most,
            ..Retention::default()
        };
        let judge = |some: &[RetentionCandidate], newer| {
            let found = guards(
                some,
                MissionCompletion { completed_at },
                &policy,
                now,
                newer,
            );
            found.into_keys().collect::<Vec<_>>()
        };
        for (flags, old) in (0..1 << 10).flat_map(|flags| (0..=5).map(move |old| (flags, old))) {
            let all: Vec<_> = (0..5).map(|number| one(number, flags, old)).collect();
            let whole = judge(&all, (0, 0));
            for (older, newer) in (0..5).map(|at| all.split_at(at)) {
                let sound = newer.iter().filter(|it| it.verified).count();
                let mut wanted = whole.clone();
                wanted.retain(|id| older.iter().any(|it| it.id == *id));
                let found = judge(older, (newer.len() as u64, sound as u64));
                assert_eq!(
                    found, wanted,
                    "{older:?}, {newer:?}, {policy:?}, {completed_at:?}"
                );
            }
        }
    }
}
