//! Single mode: one agent until it is done.

use std::sync::Arc;
use std::time::Duration;

use super::{Ended, Run, random};
use crate::agent::Meter;
use crate::agent::turn::{Agent, Ending, Setup};
use crate::error::Error;
use crate::limits;
use crate::provider::{self, Client, ClientSetup, Recorder, Session, Transport};
use crate::rt;
use crate::sandbox::{Helpers, ShellPolicy};
use crate::secret::Secret;
use crate::tools::{Context, Workdir};
use crate::transcript::stash::Stash;

/// How long the shell's first helper waits for the core to rest: the timer's smallest step.
const HELPER_DELAY: Duration = Duration::from_millis(1);

/// Runs the one agent.
pub(super) async fn run(run: Run, system: &str) -> Result<Ended, Error> {
    let Run { mut plan, sink, cancel } = run;
    let deadline = plan.started + plan.timeout;
    let role = plan.mode.name();
    let session = session(&mut plan, role)?;
    let helpers = Arc::new(Helpers::default());
    if plan.tools.get("shell").is_some() {
        let helpers = helpers.clone();
        rt::spawn(async move {
            // A timer fires when the core has nothing to do but wait: the first request, which this would delay, is on its way.
            rt::sleep(HELPER_DELAY).await;
            helpers.prepare();
        });
    }
    let context = Context {
        workdir: Workdir::new(plan.workdir_fd, plan.workdir),
        skills_root: plan.skills_dir,
        shell: ShellPolicy { allow: plan.shell_allow.into(), timeout: plan.shell_timeout, path: plan.shell_path.into(), helpers },
        stash: Stash::new(limits::STASH_BYTES_MAX),
    };
    let meter = Meter::new(plan.max_tokens);
    let setup = Setup {
        role,
        sink: &sink,
        meter: &meter,
        cancel,
        deadline,
        context: Arc::new(context),
        tools: &plan.tools,
        turns_max: plan.max_turns,
        output_tokens_max: plan.max_output_tokens,
        temperature: plan.temperature,
        effort: plan.effort,
    };
    let mut agent = Agent::new(setup, session, &plan.model.model, system);
    let Ending { stop, text } = agent.run(&plan.prompt).await?;
    Ok(Ended { stop, text })
}

/// The line to the model: over the network, or from a cassette.
fn session(plan: &mut super::RunPlan, agent: &str) -> Result<Session, Error> {
    let vendor = plan.model.vendor;
    if let Some(replay) = plan.replay.take() {
        let codec = provider::codec(replay.wire(), vendor);
        return Ok(Session::new(codec, Transport::Replay(replay), agent, None, None, random()));
    }
    let wire = vendor.wire.expect("a vendor without a wire is a cassette");
    let key = plan.key.take().or_else(|| vendor.key_default.map(Secret::new));
    let recorder = plan.record.take().map(|file| {
        let header_values = plan.headers.iter().filter_map(|(_, value)| value.to_str().ok()).map(Secret::new);
        let secrets = key.iter().cloned().chain(header_values).collect();
        Recorder::begin(file, wire, secrets)
    });
    let recorder = recorder.transpose().map_err(|e| Error::internal(format!("--record: the cassette cannot be written: {e}")))?;
    let client = Client::new(ClientSetup {
        base_url: plan.base_url.take().expect("a live provider has a base URL"),
        headers: std::mem::take(&mut plan.headers),
        tls: std::mem::take(&mut plan.tls),
        connect_timeout: plan.connect_timeout,
        idle_timeout: plan.idle_timeout,
    });
    Ok(Session::new(provider::codec(wire, vendor), Transport::Live(Box::new(client)), agent, key, recorder, random()))
}
