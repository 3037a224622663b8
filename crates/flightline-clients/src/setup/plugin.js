// flightline:file: written by `fleet setup opencode`, which writes it anew: changes made here are lost.
//
// A thin bridge: each event goes to `fleet hook opencode EVENT` as JSON on its stdin, and the JSON that it answers is applied. A failure
// of any kind is swallowed, and no event waits for more than two seconds.

import { spawn } from "node:child_process"

const FLEET = "@fleet@"
const LIMIT_MS = 2000
const MAX_ANSWER = 1 << 20

/** Runs the hook of an event, and gives its answer: {} when there is none. It never throws. */
function ask(event, payload) {
  return new Promise((resolve) => {
    let child
    let timer
    let answer = ""
    let ended = false
    const end = (value) => {
      if (ended) return
      ended = true
      clearTimeout(timer)
      resolve(value)
    }
    try {
      child = spawn(FLEET, ["hook", "opencode", event], {
        cwd: payload.directory || undefined,
        stdio: ["pipe", "pipe", "ignore"],
        windowsHide: true,
      })
      timer = setTimeout(() => {
        try {
          child.kill("SIGKILL")
        } catch {}
        end({})
      }, LIMIT_MS)
      child.on("error", () => end({}))
      child.stdin.on("error", () => {})
      child.stdout.on("error", () => {})
      child.stdout.setEncoding("utf8")
      child.stdout.on("data", (chunk) => {
        if (answer.length < MAX_ANSWER) answer += chunk
      })
      child.on("close", () => {
        try {
          const value = JSON.parse(answer)
          end(value && typeof value === "object" && !Array.isArray(value) ? value : {})
        } catch {
          end({})
        }
      })
      child.stdin.end(JSON.stringify(payload))
    } catch {
      end({})
    }
  })
}

/** Does something, and swallows every failure. */
async function quietly(act) {
  try {
    return await act()
  } catch {
    return undefined
  }
}

const text = (value) => (typeof value === "string" && value.trim() !== "" ? value : undefined)

let parts = 0

/** A part of a message that only the model reads. */
function part(sessionID, messageID, context) {
  parts += 1
  const id = `prt_flightline${Date.now().toString(36)}${parts.toString(36)}`
  return { id, sessionID, messageID, type: "text", text: context, synthetic: true }
}

export const Flightline = async ({ directory }) => {
  /** What is known of each session: {parentID, started, pending, tokens, limit}. */
  const sessions = new Map()

  const session = (id) => {
    let known = sessions.get(id)
    if (!known) {
      known = {}
      sessions.set(id, known)
    }
    return known
  }

  const payload = (id, more) => {
    const known = session(id)
    const tokens = known.used && known.limit ? { used: known.used, total: known.limit } : undefined
    return { sessionID: id, directory, parentID: known.parentID, tokens, ...more }
  }

  const start = async (id, source) => {
    const known = session(id)
    if (known.started) return
    known.started = true
    const answer = await ask("session.start", payload(id, { source }))
    known.pending = text(answer.context) ?? known.pending
  }

  /** Takes the context that waits for the next request of a session. */
  const take = (id) => {
    const known = sessions.get(id)
    const context = known?.pending
    if (known) known.pending = undefined
    return context
  }

  const on = {
    "session.created": async ({ info }) => {
      if (!info?.id) return
      session(info.id).parentID = info.parentID
      await start(info.id, "startup")
    },
    "session.idle": async ({ sessionID }) => {
      if (sessionID) await ask("session.idle", payload(sessionID))
    },
    "session.compacted": async ({ sessionID }) => {
      if (!sessionID) return
      const answer = await ask("session.compacted", payload(sessionID))
      session(sessionID).pending = text(answer.context) ?? session(sessionID).pending
    },
    "session.deleted": async ({ sessionID, info }) => {
      const id = sessionID ?? info?.id
      if (!id) return
      await ask("session.deleted", payload(id))
      sessions.delete(id)
    },
    "todo.updated": async ({ sessionID, todos }) => {
      if (sessionID) await ask("todo.updated", payload(sessionID, { todos }))
    },
    "message.updated": async ({ info }) => {
      const tokens = info?.role === "assistant" ? info.tokens : undefined
      if (!tokens || !info.sessionID) return
      const cache = tokens.cache ?? {}
      const sum = (tokens.input ?? 0) + (cache.read ?? 0) + (cache.write ?? 0) + (tokens.output ?? 0)
      const used = tokens.total ?? sum
      if (used > 0) session(info.sessionID).used = used
    },
  }

  return {
    event: ({ event }) =>
      quietly(async () => {
        const act = on[event?.type]
        if (act) await act(event.properties ?? {})
      }),

    "chat.message": (input, output) =>
      quietly(async () => {
        const id = input.sessionID
        // A session that was not created in this process goes on where it was left.
        await start(id, "resume")
        const said = output.parts.filter((it) => it.type === "text" && !it.synthetic).map((it) => it.text)
        const answer = await ask("chat.message", payload(id, { prompt: said.join("\n") }))
        const contexts = [take(id), text(answer.context)].filter(Boolean)
        if (contexts.length > 0) output.parts.push(part(id, output.message.id, contexts.join("\n\n")))
      }),

    "chat.params": (input) =>
      quietly(async () => {
        const limit = input.model?.limit?.context
        if (limit > 0) session(input.sessionID).limit = limit
      }),

    "tool.execute.before": async (input, output) => {
      const answer = await quietly(() =>
        ask("tool.execute.before", payload(input.sessionID, { tool: input.tool, args: output.args, callID: input.callID })),
      )
      const reason = text(answer?.deny)
      if (reason) throw new Error(reason)
    },

    "tool.execute.after": (input, output) =>
      quietly(async () => {
        const error = text(output.metadata?.error)
        const { tool, args, callID } = input
        const answer = await ask("tool.execute.after", payload(input.sessionID, { tool, args, callID, error }))
        const context = text(answer.context)
        if (context && typeof output.output === "string") output.output += `\n\n${context}`
      }),

    "experimental.session.compacting": (input, output) =>
      quietly(async () => {
        const answer = await ask("session.compacting", payload(input.sessionID))
        const context = text(answer.context)
        if (context && Array.isArray(output.context)) output.context.push(context)
      }),

    "experimental.chat.messages.transform": (_input, output) =>
      quietly(async () => {
        const last = output.messages.findLast((it) => it.info?.role === "user")
        const context = last && take(last.info.sessionID)
        if (context) last.parts.push(part(last.info.sessionID, last.info.id, context))
      }),

    "shell.env": (input, output) =>
      quietly(async () => {
        if (!input.sessionID) return
        const answer = await ask("shell.env", payload(input.sessionID, { callID: input.callID }))
        for (const name of ["FLEET_AGENT", "FLEET_SESSION"]) {
          const value = text(answer.env?.[name])
          if (value) output.env[name] = value
        }
      }),
  }
}
