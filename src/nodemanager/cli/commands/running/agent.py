"""`nodemanager agent`, or just `nodemanager`: makes this host what its ConfigSets say, and keeps it so."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click

from nodemanager import __version__
from nodemanager.agent import self_care, service, standby
from nodemanager.agent.assembly import HostSetup
from nodemanager.agent.link.api_reachability import SecretLimits
from nodemanager.agent.link.token_renewal import publish_expiry
from nodemanager.agent.options import AgentOptions, OwnCredential
from nodemanager.agent.report import status_sources
from nodemanager.agent.upgrades.upgrade import UpgradeSettings
from nodemanager.cli import agent_credential
from nodemanager.cli.settings import agent_config, connect, go_options, host_names, host_options, labels, logs
from nodemanager.cli.settings.durations import Duration
from nodemanager.client.auth.exchanged_token import ExchangedToken
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from nodemanager.host.files.bucket import MAX_AGE, MAX_SIZE, MAX_TOTAL, MAX_USER, BucketLimits
from nodemanager.host.files.bucket_room import Caps
from nodemanager.host.process import allocator, background, priority
from nodemanager.runtime import metrics, probes, process_metrics, sd_notify
from nodemanager.runtime.manager import StopTimedOut

log = logging.getLogger("nodemanager.agent")
THRESHOLDS: Final = (700, 10, 10)
"""When cycles are looked for, as Python has it: the static program is begun with a larger one."""


@agent_config.options
@click.command(
    epilog="""\b
Examples:
  nodemanager --kubeconfig /etc/nodemanager/kubeconfig    as the service does
  nodemanager agent --hostname web1 --root /mnt/image     another name, another root
  nodemanager --config.file /etc/nodemanager/agent.yaml   flags from a file; variables and flags beat it
  kill -HUP PID                                           look at everything again, now
""",
)
@connect.options(namespaced=True)
@host_options.host_options
@click.option("--metrics-bind-address", default=":8080", show_default=True, metavar="ADDRESS",
              help="Where to serve /metrics; ':8080' is loopback only, '0' is nowhere.")  # fmt: skip
@click.option("--health-probe-bind-address", default=":8081", show_default=True, metavar="ADDRESS",
              help="Where to serve /healthz and /readyz; '0' is nowhere.")  # fmt: skip
@click.option("--configset.reconcile-period", "period", type=Duration(), default="10m", show_default=True,
              metavar="TIME",
              help="When to look again although nothing happened; 0 = never. A ManagedNode may say"
              " otherwise.")  # fmt: skip
@click.option("--configset.start-verify-delay", "start_delay", type=Duration(), default="3s",
              show_default=True, metavar="TIME", envvar="NODEMANAGER_CONFIGSET_START_VERIFY_DELAY",
              help="When to look again whether a service that was started still runs.")  # fmt: skip
@host_options.BUCKET
@click.option("--configset.file-bucket.max-age", "max_age", type=Duration(), default=MAX_AGE, metavar="TIME",
              envvar="NODEMANAGER_CONFIGSET_FILE_BUCKET_MAX_AGE",
              help="How long backups of files are kept; 0 = for ever. Default: 168h.")  # fmt: skip
@click.option("--configset.file-bucket.max-file-size-bytes", "max_size", type=click.IntRange(0),
              default=MAX_SIZE, show_default=True, metavar="BYTES",
              envvar="NODEMANAGER_CONFIGSET_FILE_BUCKET_MAX_FILE_SIZE_BYTES",
              help="Files larger than this are not backed up; 0 = all are.")  # fmt: skip
@click.option("--configset.file-bucket.max-total-bytes", "max_total", type=click.IntRange(0),
              default=MAX_TOTAL, show_default=True, metavar="BYTES",
              envvar="NODEMANAGER_CONFIGSET_FILE_BUCKET_MAX_TOTAL_BYTES",
              help="Room on the disk for all backups; the oldest go first; 0 = no limit.")  # fmt: skip
@click.option("--configset.file-bucket.max-user-bytes", "max_user", type=click.IntRange(0),
              default=MAX_USER, show_default=True, metavar="BYTES",
              envvar="NODEMANAGER_CONFIGSET_FILE_BUCKET_MAX_USER_BYTES",
              help="The same for backups of files of one user other than root.")  # fmt: skip
@click.option("--configset.prune-grace", "prune_grace", type=Duration(0), default="1m", show_default=True,
              metavar="TIME", envvar="NODEMANAGER_CONFIGSET_PRUNE_GRACE",
              help="How long nobody declares something before it is taken back.")  # fmt: skip
@click.option("--configset.prune-confirm", "prune_confirm", type=Duration(0), default="30m",
              show_default=True, metavar="TIME", envvar="NODEMANAGER_CONFIGSET_PRUNE_CONFIRM",
              help="How long what may be a mistake lasts before something is taken back.")  # fmt: skip
@click.option("--managednode.forgiveness-period", "forgiveness", type=Duration(1), default="1m",
              show_default=True, metavar="TIME", envvar="NODEMANAGER_MANAGEDNODE_FORGIVENESS_PERIOD",
              help="How long after its slot an upgrade may start, and wait for its group.")  # fmt: skip
@click.option("--managednode.drain-timeout", "drain", type=Duration(1), default="5m", show_default=True,
              metavar="TIME", envvar="NODEMANAGER_MANAGEDNODE_DRAIN_TIMEOUT",
              help="How long pods may take to leave before an upgrade is given up.")  # fmt: skip
@click.option("--nice", type=click.IntRange(0, 19), default=5, show_default=True, metavar="NUMBER",
              help="How far to step back behind the work of this host, as nice(1) does; 0 = not at all. What"
              " the agent starts runs as usual.")  # fmt: skip
@click.option("--realtime/--no-realtime", default=True, show_default=True, envvar="NODEMANAGER_REALTIME",
              help="Whether to hear of changes on the host and undo them at once.")  # fmt: skip
@click.option("--audit.every-drift", "every_drift", is_flag=True, envvar="NODEMANAGER_AUDIT_EVERY_DRIFT",
              help="Record each drift in the host's own chain, not only the first of a resource in an hour"
              " and how many followed.")  # fmt: skip
@click.option("--edge", is_flag=True, envvar="NODEMANAGER_EDGE",
              help="This host is of an edge site: report links, bonds, VLANs, DRBD and boot.")  # fmt: skip
@click.option("--state.key-file", "key_file", default="", metavar="PATH",
              help="Key that Secrets are encrypted with on this host, at least 32 bytes; a name without a"
              " slash is a credential of systemd. Default: they are only unreadable for others.")  # fmt: skip
@click.option("--state.secret-grace", "grace", type=Duration(), default="72h", show_default=True,
              metavar="TIME",
              help="How long known Secrets are used after the API has refused this host; 0 = for"
              " ever.")  # fmt: skip
@click.option("--state.secret-max-age", "secret_age", type=Duration(), default="0", show_default=True,
              metavar="TIME",
              help="How long known Secrets are used without an answer of the API; 0 = for ever.")  # fmt: skip
@labels.option("A label of this host, beside those that it was joined with; `nodemanager rbac --label` must"
               " declare it. May be given again.")  # fmt: skip
@click.option("--leader-elect", "leader_elect", type=bool, is_flag=False, flag_value="true", default="false",
              help="Where another agent works on this host, stand by, and take over after it.")  # fmt: skip
@click.option("--pid-file", type=click.Path(path_type=Path), default=background.PID_FILE, show_default=True,
              metavar="PATH", help="Where a script of FreeBSD's rc.d that does not use daemon(8) looks for"
              " the process.")  # fmt: skip
@click.option("--pod-identity", is_flag=True,
              help="In a DaemonSet: exchange the pod's token for that of the host it runs on.")  # fmt: skip
@go_options.ignored
@click.option("--log-level", type=logs.Level(), default="INFO", show_default=True,
              help="Least important lines to log; INFO+2 is between INFO and WARN.")  # fmt: skip
@click.option("--log-format", type=click.Choice(logs.FORMATS), default="text", show_default=True,
              help="Lines for people, or for a collector.")  # fmt: skip
def command(settings: connect.Settings, root: str, hostname: str, **flags: Any) -> None:
    """Make this host what its ConfigSets say, keep it so, and report what is seen.

    Runs as root until it is told to stop (Ctrl-C or SIGTERM), also across outages of the API.
    """
    if hostname:  # not in the option itself: `plan` has it, too, where the exit code of wrong usage is taken
        try:
            host_names.checked(hostname)
        except click.BadParameter as error:
            raise click.BadParameter(error.message, param_hint="'--hostname'") from error
    for name in ("metrics_bind_address", "health_probe_bind_address"):
        probes.parse_address(flags[name])
    if flags["verify"]:
        click.echo("the configuration is valid")
        return
    with contextlib.ExitStack() as stack:
        in_background = background.is_expected(os.environ)
        if in_background:
            connect.client_config(settings)  # errors in it are reported while a user still watches
            stack.enter_context(background.entered(flags["pid_file"]))
        logs.configure(flags["log_level"], flags["log_format"], syslog=in_background)
        _start(settings, root, hostname, flags)


def _start(settings: connect.Settings, root: str, hostname: str, flags: dict[str, Any]) -> None:
    priority.step_back(flags["nice"])
    allocator.keep_little()
    limits = BucketLimits(flags["max_size"], flags["max_age"], Caps(flags["max_total"], flags["max_user"]))
    host = HostSetup(
        root, hostname, bucket=flags["bucket"], backups=limits, start_delay=flags["start_delay"],
        labels=flags["labels"],
    )  # fmt: skip
    options = AgentOptions(
        settings.namespace,
        host,
        flags["metrics_bind_address"],
        flags["health_probe_bind_address"],
        flags["period"],
        UpgradeSettings(timedelta(seconds=flags["forgiveness"]), flags["drain"]),
        pod_identity=flags["pod_identity"],
        secrets=SecretLimits(flags["grace"], flags["secret_age"]),
        key_file=flags["key_file"],
        prune_grace=flags["prune_grace"],
        prune_confirm=flags["prune_confirm"],
        realtime=flags["realtime"],
        every_drift=flags["every_drift"],
        edge=flags["edge"],
    )
    asyncio.run(run_elected(settings, options) if flags["leader_elect"] else run(settings, options))


async def run_elected(settings: connect.Settings, options: AgentOptions) -> None:
    """Run an agent as soon as no other works on this host, until a signal stops it."""
    notifications = sd_notify.of_process()

    def waiting(why: str) -> None:
        notifications.ready()  # this is what it is to do, and it may take for ever
        notifications.status(why)

    lead = await standby.elected(options.host.root, options.host.state, waiting)
    if lead is not None:
        with contextlib.closing(lead):
            await run(settings, options)


async def run(settings: connect.Settings, options: AgentOptions, *, signals: bool = True) -> None:
    """Run an agent until a signal or a cancellation stops it.

    It begins anew where it finds a credential on disk with which it is another host, or at another API.
    """
    course = _Course()
    if signals:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # one that comes between two of them ends nothing
    while course.again:
        await _run_once(settings, options, course, signals=signals)


@dataclass(slots=True)
class _Course:
    """What one agent leaves to the next in this process."""

    again: bool = True
    """Whether there is a next one."""
    shared: bool = False
    """Whether the API lets us be a host with a credential that is named after another."""

    def accept(self) -> None:
        self.shared = True


async def _run_once(
    settings: connect.Settings, options: AgentOptions, course: _Course, *, signals: bool
) -> None:
    registry = metrics.Registry()
    process_metrics.register(registry)
    hostname = options.host.hostname or os.uname().nodename
    credential = agent_credential.load(settings, hostname, shared=course.shared or options.pod_identity)
    course.again = False
    config = credential.config
    if options.pod_identity:
        own_token = ExchangedToken(config, hostname, options.namespace)
        publish_expiry(registry, hostname, lambda: own_token.life)
        config = replace(config, credentials=own_token)
    client = Client(HttpTransport(config))
    notifications = sd_notify.of_process()

    def begin_anew(reason: str) -> None:
        course.again = True
        agent.manager.stop(f"{reason}; it begins anew")

    def on_stop() -> None:
        if not course.again:
            notifications.stopping()

    own = OwnCredential()
    labelled = {**credential.read.labels, **options.host.labels}
    options = replace(options, host=replace(options.host, hostname=credential.host, labels=labelled))
    if not options.pod_identity:
        own = credential.of(client, begin_anew, course.accept)
    agent = service.build(client, options, registry, own, on_stop)
    agent.board.plug(status_sources.of_reachability(agent.reachability, config.server))
    service_manager = self_care.look_after(agent, notifications, owns_process=signals)
    log.info(
        "nodemanager %s agent of %s, namespace %s, %s",
        __version__, agent.managed_host.identity.hostname, options.namespace, config.source,
    )  # fmt: skip
    if not agent.managed_host.tree.running:
        log.info("%s is an image, not the root of a running host: its services stay off", options.host.root)

    def look_again() -> None:
        if own.watch is not None:
            own.watch.look_now()
        agent.requests.pass_now()
        service_manager.reload()

    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        await agent.manager.run(install_signals=signals, on_hangup=look_again)
    except StopTimedOut as error:
        log.critical("%s", error)
        os._exit(1)  # the event loop would wait for the part that does not end
    finally:
        await client.close()
        agent.close()
