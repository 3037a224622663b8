// flightline:file: written by `fleet setup opencode`, which writes it anew: changes made here are lost.
//
// A thin bridge: each event goes to `fleet hook opencode EVENT` as JSON on its stdin, and the JSON that it answers is applied. A failure
// of any kind is swallowed, and no event waits for more than two seconds.

import { spawn } from "node:child_process"

const FLEET = "@fleet@"
const LIMIT_MS = 2000
const MAX_ANSWER = 1 << 20

/** The tools that change something, and are asked about before they run. */
const CHANGES = new Set(["edit", "write", "multiedit", "patch", "apply_patch", "bash", "todowrite"])

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
  /**
   * The sessions by their ids. Each has its parent, its start, the context that waits for it, the tokens that are used and the limit
   * of them, and the calls of tools whose failure was told.
   */
  const sessions = new Map()

  const session = (id) => {
    let known = sessions.get(id)
    if (!known) {
      known = { told: new Set() }
      sessions.set(id, known)
    }
    return known
  }

  const payload = (id, more) => {
    const known = session(id)
    const tokens = known.used && known.limit ? { used: known.used, total: known.limit } : undefined
    return { sessionID: id, directory, parentID: known.parentID, tokens, ...more }
  }

  /** Tells the start of a session once, and waits until that is done. */
  const start = (id, source) => {
    const known = session(id)
    known.started ??= ask("session.start", payload(id, { source })).then((answer) => {
      known.pending = text(answer.context) ?? known.pending
    })
    return known.started
  }

  /** Takes the context that waits for a session, to put it where it stays. */
  const take = (id) => {
    const known = session(id)
    const context = known.pending
    known.pending = undefined
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
      session(sessionID).used = undefined
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
    // A tool that fails has no other event.
    "message.part.updated": async ({ part: it }) => {
      if (it?.type !== "tool" || it.state?.status !== "error" || !it.sessionID) return
      const { told } = session(it.sessionID)
      if (told.has(it.callID)) return
      told.add(it.callID)
      const error = text(it.state.error) ?? "failed"
      const more = { tool: it.tool, args: it.state.input, callID: it.callID, error }
      await ask("tool.execute.after", payload(it.sessionID, more))
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
      if (!CHANGES.has(input.tool)) return
      const more = { tool: input.tool, args: output.args, callID: input.callID }
      const answer = await quietly(() => ask("tool.execute.before", payload(input.sessionID, more)))
      const reason = text(answer?.deny)
      if (!reason) return
      session(input.sessionID).told.add(input.callID)
      throw new Error(reason)
    },

    "tool.execute.after": (input, output) =>
      quietly(async () => {
        const more = { tool: input.tool, args: input.args, callID: input.callID }
        const answer = await ask("tool.execute.after", payload(input.sessionID, more))
        if (typeof output.output !== "string") return
        for (const context of [take(input.sessionID), text(answer.context)]) {
          if (context) output.output += `\n\n${context}`
        }
      }),

    "experimental.session.compacting": (input, output) =>
      quietly(async () => {
        const answer = await ask("session.compacting", payload(input.sessionID))
        const context = text(answer.context)
        if (context && Array.isArray(output.context)) output.context.push(context)
      }),

    // A request is changed in memory only. So the context stays in wait until a message or the output of a tool can keep it.
    "experimental.chat.messages.transform": (_input, output) =>
      quietly(async () => {
        const last = output.messages.findLast((it) => it.info?.role === "user")
        const id = last?.info?.sessionID
        const context = id && sessions.get(id)?.pending
        if (!context || last.parts.some((it) => it.text === context)) return
        last.parts.push(part(id, last.info.id, context))
      }),

    "shell.env": (input, output) =>
      quietly(async () => {
        if (!input.sessionID) return
        const answer = await ask("shell.env", payload(input.sessionID, { callID: input.callID }))
        for (const name of ["FLEET_AGENT", "FLEET_EPOCH"]) {
          const value = text(answer.env?.[name])
          if (value) output.env[name] = value
        }
      }),
  }
}
