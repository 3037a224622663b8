//! MCP on standard input and output.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use flightline::core::{Code, Refusal};
use flightline::registry::Called;
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::runner::{Call, OperationRunner, Pending};
use crate::server::Server;
use crate::tool::Loaded;

type QueuedCall = (Call, oneshot::Sender<Called>);

/// Sends calls to the thread that runs operations.
struct Line(Sender<QueuedCall>);

impl OperationRunner for Line {
    fn call(&self, call: Call) -> Pending<'_> {
        let (reply, answer) = oneshot::channel();
        let sent = self.0.send((call, reply));
        Box::pin(async move {
            let answer = match sent {
                Ok(()) => answer.await.ok(),
                Err(_) => None,
            };
            answer.unwrap_or_else(|| {
                Err(Refusal::new(Code::Failed, "the server is about to end")).into()
            })
        })
    }
}

/// Serves MCP on standard input and output until the client closes them. `run` runs each call, on this thread.
pub fn serve_stdio(loaded: Loaded, run: &mut dyn FnMut(Call) -> Called) -> io::Result<()> {
    let (orders, waiting) = channel::<QueuedCall>();
    let server = Server::new(Line(orders), loaded);
    let speaker = thread::Builder::new()
        .name("mcp".to_owned())
        .spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let spoken = runtime.block_on(async move {
                match server.serve(stdio()).await {
                    Ok(running) => running.waiting().await.map(drop).map_err(io::Error::other),
                    // A client that leaves before it has said anything left nothing undone.
                    Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
                    Err(error) => Err(io::Error::other(error.to_string())),
                }
            });
            // A pending read of standard input must not keep the process alive.
            runtime.shutdown_background();
            spoken
        })?;
    while let Ok((call, reply)) = waiting.recv() {
        // A client that gave its request up does not want the answer.
        let _ = reply.send(run(call));
    }
    speaker
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the thread that speaks MCP died")))
}
