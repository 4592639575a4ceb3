"""The kinds of the core group, except Pod."""

from __future__ import annotations

from nodemanager.server.kinds.schemas.notation import CORE, SchemaPackage

OBJECTS = SchemaPackage(
    CORE,
    "",
    """
Namespace kind list | A scope for names; deleting it deletes everything in it.
  spec NamespaceSpec | Desired state.
  status NamespaceStatus | Present state, as last observed.
NamespaceSpec | What keeps a namespace from vanishing.
  finalizers [string] atomic | Who must clean up before the namespace is gone.
NamespaceStatus | Where the namespace is in its life.
  conditions [NamespaceCondition] map=type patch=merge:type | Aspects of the present state, one per type.
  phase string enum=Active,Terminating | Active, or Terminating while its content is deleted.
NamespaceCondition | One aspect of the state of a namespace.
  lastTransitionTime Time | When the status last changed.
  message string | Explanation for people.
  reason string | One word for programs that says why.
  status! string | True, False or Unknown.
  type! string | Name of the aspect.
Secret kind list | Confidential data: passwords, tokens, keys.
  data {bytes} | Values by key, base64 encoded.
  immutable boolean | Whether the data may never change again.
  stringData {string} | Values as plain text; merged into data when written, never read back.
  type string | What the data is for; decides which keys must exist.
ConfigMap kind list | Configuration data that is not confidential.
  binaryData {bytes} | Other values by key, base64 encoded.
  data {string} | UTF-8 values by key.
  immutable boolean | Whether the data may never change again.
ServiceAccount kind list | An identity for programs.
  automountServiceAccountToken boolean | Whether pods get a token of it unless they say otherwise.
  imagePullSecrets [LocalObjectReference] atomic | Secrets to pull images with.
  secrets [ObjectReference] map=name patch=merge:name | Secrets that pods of this account may use.
ObjectReference atomic | Enough to find another object, or a part of it.
  apiVersion string | Group and version.
  fieldPath string | Which part of the object, as a path.
  kind string | Kind of the object.
  name string | Name.
  namespace string | Namespace.
  resourceVersion string | Version of the object this was said about.
  uid string | Unique id.
LocalObjectReference atomic | The name of an object in the same namespace.
  name string | Name.
Event kind list | Something that happened to an object, kept for a while.
  metadata! ObjectMeta | Standard metadata of an object.
  action string | What was done or failed.
  count int32 | How often it happened.
  eventTime MicroTime | When it was first observed.
  firstTimestamp Time | When it happened first.
  involvedObject! ObjectReference | The object it is about.
  lastTimestamp Time | When it happened last.
  message string | Explanation for people.
  reason string | One word for programs that says why.
  related ObjectReference | A second object that plays a part.
  reportingComponent string | Name of the controller that reports it.
  reportingInstance string | Which instance of the controller.
  series EventSeries | Set when the event repeats.
  source EventSource | Who reported it, in the older form.
  type string | Normal or Warning.
EventSeries | Repetitions of one event.
  count int32 | How often so far.
  lastObservedTime MicroTime | When it was last seen.
EventSource | The reporter of an event.
  component string | Program that reported it.
  host string | Node it ran on.
Node kind list | A machine that pods can run on.
  spec NodeSpec | Desired state.
  status NodeStatus | Present state, as last observed.
NodeSpec | What is decided about a node.
  configSource NodeConfigSource | No longer used.
  externalID string | No longer used.
  podCIDR string | Address range for pods of the node.
  podCIDRs [string] set patch=merge | Address ranges for pods, at most one per IP family.
  providerID string | Id of the machine at its cloud provider.
  taints [Taint] atomic | What keeps pods away that do not tolerate it.
  unschedulable boolean | Whether new pods stay away (cordoned).
Taint | Keeps pods away that do not tolerate it.
  effect! string enum=NoExecute,NoSchedule,PreferNoSchedule | What happens to pods that do not tolerate it.
  key! string | Key.
  timeAdded Time | When it was added.
  value string | Value.
NodeStatus | What the node reports.
  addresses [NodeAddress] map=type patch=merge:type | Addresses of the node.
  allocatable {Quantity} | What pods may use, by resource.
  capacity {Quantity} | What the machine has, by resource.
  conditions [NodeCondition] map=type patch=merge:type | Aspects of the present state, one per type.
  config NodeConfigStatus | No longer used.
  daemonEndpoints NodeDaemonEndpoints | Ports of the daemons on the node.
  declaredFeatures [string] atomic | Feature gates the node says it has.
  features NodeFeatures | Abilities of the container runtime.
  images [ContainerImage] atomic | Images that are on the node.
  nodeInfo NodeSystemInfo | Versions and ids of the machine.
  phase string enum=Pending,Running,Terminated | Where it is in its life, in one word.
  runtimeHandlers [NodeRuntimeHandler] atomic | Runtimes that pods can choose.
  volumesAttached [AttachedVolume] atomic | Volumes that are attached.
  volumesInUse [string] atomic | Volumes that are mounted.
NodeAddress | One address of a node.
  address! string | The address.
  type! string | What kind of address: Hostname, InternalIP and so on.
NodeCondition | One aspect of the state of a node.
  lastHeartbeatTime Time | When the condition was last confirmed.
  lastTransitionTime Time | When the status last changed.
  message string | Explanation for people.
  reason string | One word for programs that says why.
  status! string | True, False or Unknown.
  type! string | Name of the aspect, for example Ready.
NodeSystemInfo | Versions and ids of the machine.
  architecture! string | Processor architecture.
  bootID! string | Id that changes with every boot.
  containerRuntimeVersion! string | Container runtime and its version.
  kernelVersion! string | Kernel release.
  kubeProxyVersion! string | No longer used.
  kubeletVersion! string | Version of the kubelet.
  machineID! string | Id of the installation.
  operatingSystem! string | Operating system.
  osImage! string | Operating system and release, from os-release.
  swap NodeSwapStatus | Swap space.
  systemUUID! string | Id of the hardware.
NodeSwapStatus | Swap space of a node.
  capacity int64 | Bytes in all.
ContainerImage | An image on a node.
  names [string] atomic | Names it is known by.
  sizeBytes int64 | Size in bytes.
AttachedVolume | A volume attached to a node.
  devicePath! string | Device it appears as.
  name! string | Name.
NodeDaemonEndpoints | Ports of the daemons on a node.
  kubeletEndpoint DaemonEndpoint | Where the kubelet listens.
DaemonEndpoint | Where a daemon listens.
  Port! int32 | Port number.
NodeConfigSource | No longer used.
  configMap ConfigMapNodeConfigSource | No longer used.
NodeConfigStatus | No longer used.
  active NodeConfigSource | No longer used.
  assigned NodeConfigSource | No longer used.
  error string | No longer used.
  lastKnownGood NodeConfigSource | No longer used.
ConfigMapNodeConfigSource | No longer used.
  kubeletConfigKey! string | No longer used.
  name! string | Name.
  namespace! string | Namespace.
  resourceVersion string | Version of the object this was said about.
  uid string | Unique id.
NodeFeatures | Abilities of a container runtime.
  supplementalGroupsPolicy boolean | Whether the policy for groups is honoured.
NodeRuntimeHandler | A runtime that pods can choose.
  features NodeRuntimeHandlerFeatures | What it can do.
  name string | Name.
NodeRuntimeHandlerFeatures | Abilities of a runtime.
  recursiveReadOnlyMounts boolean | Whether mounts can be read-only all the way down.
  userNamespaces boolean | Whether user namespaces work.
""",
)
"""Namespaces, Secrets, ConfigMaps, ServiceAccounts, Events and Nodes."""
