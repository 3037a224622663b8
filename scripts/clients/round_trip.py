"""A mission is flown with a client that was generated from the server's description."""

import os

from flightline_client import AuthenticatedClient
from flightline_client.api.default import (
    create_checkpoint,
    get_missions_id,
    get_sorties_id,
    list_checkpoints,
    post_missions,
    post_missions_id_sorties,
    post_missions_id_sorties_claim_next,
    post_sorties_id_complete,
    recover_checkpoint,
)
from flightline_client.models import (
    CreateCheckpointBody,
    MissionView,
    NewSortie,
    PostMissionsBody,
    PostMissionsIdSortiesClaimNextBody,
    PostSortiesIdCompleteBody,
    Problem,
    RecoverCheckpointBody,
)

client = AuthenticatedClient(
    base_url=os.environ["FLEET_URL"],
    token=os.environ["FLEET_TOKEN"],
    headers={"Fleet-Agent": "ada-py"},
)


def done(answer):
    if answer is None or isinstance(answer, Problem):
        raise SystemExit(f"not done: {answer}")
    return answer


def expect(what, value, wanted):
    if value != wanted:
        raise SystemExit(f"{what} is {value!r}, and not {wanted!r}")


with client:
    made = done(post_missions.sync(client=client, body=PostMissionsBody(title="Round trip in Python")))
    assert isinstance(made, MissionView)
    mission = made.mission.id
    done(post_missions_id_sorties.sync(mission, client=client, body=NewSortie(title="Fly there")))
    claimed = done(
        post_missions_id_sorties_claim_next.sync(mission, client=client, body=PostMissionsIdSortiesClaimNextBody())
    )
    expect("the owner", claimed.owner, "ada-py")
    sortie = claimed.sortie.id

    taken = done(create_checkpoint.sync(client=client, body=CreateCheckpointBody(mission_id=mission)))
    done(post_sorties_id_complete.sync(sortie, client=client, body=PostSortiesIdCompleteBody()))
    listed = done(list_checkpoints.sync(client=client, mission_id=mission, limit=100))
    expect("the checkpoint", taken.checkpoint.id in [it.id for it in listed.checkpoints], True)
    expect("the mission's progress", done(get_missions_id.sync(mission, client=client)).progress_percent, 100)

    recovered = done(
        recover_checkpoint.sync(taken.checkpoint.id, client=client, body=RecoverCheckpointBody(force=True))
    )
    expect("success", recovered.success, True)
    expect("the sortie", done(get_sorties_id.sync(sortie, client=client)).sortie.status, "in_progress")

    missing = get_missions_id.sync("msn-ffffffff", client=client)
    expect("the code of a problem", missing.code if isinstance(missing, Problem) else missing, "not_found")

print("a mission was flown in Python")
