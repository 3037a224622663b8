// A mission is flown with a client that was generated from the server's description. If the types of the client do not
// fit what is sent and read here, this does not compile.
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

const client = createClient<paths>({
  baseUrl: process.env.FLEET_URL,
  headers: { Authorization: `Bearer ${process.env.FLEET_TOKEN}`, "Fleet-Agent": "ada-ts" },
});

function done<T>(answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data === undefined) {
    throw new Error(`${answer.response.status} ${JSON.stringify(answer.error)}`);
  }
  return answer.data;
}

function expect(what: string, is: unknown, wanted: unknown): void {
  if (JSON.stringify(is) !== JSON.stringify(wanted)) {
    throw new Error(`${what} is ${JSON.stringify(is)}, and not ${JSON.stringify(wanted)}`);
  }
}

const made = done(await client.POST("/api/v1/missions", { body: { title: "Round trip in TypeScript" } }));
const mission = { params: { path: { id: made.mission.id } } };
done(await client.POST("/api/v1/missions/{id}/sorties", { ...mission, body: { title: "Fly there" } }));
const claimed = done(await client.POST("/api/v1/missions/{id}/sorties/claim-next", { ...mission, body: {} }));
expect("the owner", claimed.owner, "ada-ts");
const sortie = { params: { path: { id: claimed.sortie.id } } };

const taken = done(await client.POST("/api/v1/checkpoints", { body: { mission_id: made.mission.id, trigger: "manual" } }));
done(await client.POST("/api/v1/sorties/{id}/complete", { ...sortie, body: {} }));
const listed = done(
  await client.GET("/api/v1/checkpoints", { params: { query: { mission_id: made.mission.id, limit: 100 } } }),
);
expect("the checkpoint", listed.checkpoints.some((it) => it.id === taken.checkpoint.id), true);
expect("the mission's progress", done(await client.GET("/api/v1/missions/{id}", mission)).progress_percent, 100);

const recovered = done(
  await client.POST("/api/v1/checkpoints/{id}/recover", {
    params: { path: { id: taken.checkpoint.id } },
    body: { force: true },
  }),
);
expect("success", recovered.success, true);
expect("the sortie", done(await client.GET("/api/v1/sorties/{id}", sortie)).sortie.status, "in_progress");

const missing = await client.GET("/api/v1/missions/{id}", { params: { path: { id: "msn-ffffffff" } } });
expect("the code of a problem", missing.error?.code, "not_found");
console.log("a mission was flown in TypeScript");
