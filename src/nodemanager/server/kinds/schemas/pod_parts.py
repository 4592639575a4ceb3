"""The deeper parts of a Pod: probes, security, scheduling and environment."""

from __future__ import annotations

from nodemanager.server.kinds.schemas.notation import CORE, SchemaPackage

PARTS = SchemaPackage(
    CORE,
    "",
    """
Affinity | Rules that draw a pod to nodes or keep it away.
  nodeAffinity NodeAffinity | Which nodes suit.
  podAffinity PodAffinity | Which pods to be near to.
  podAntiAffinity PodAntiAffinity | Which pods to stay away from.
AppArmorProfile | An AppArmor profile.
  localhostProfile string | Profile on the node.
  type! string enum=Localhost,RuntimeDefault,Unconfined | Where the profile comes from.
Capabilities | Capabilities to add or drop.
  add [string] atomic | What to add.
  drop [string] atomic | What to drop.
ConfigMapEnvSource | All keys of a ConfigMap.
  name string | Name.
  optional boolean | Whether it may be missing.
ConfigMapKeySelector atomic | A key of a ConfigMap.
  key! string | Key.
  name string | Name.
  optional boolean | Whether it may be missing.
ContainerExtendedResourceRequest | Which request an extended resource became.
  containerName! string | Container that asked.
  requestName! string | Request in the claim.
  resourceName! string | Extended resource.
ContainerResizePolicy | Whether a changed resource needs a restart.
  resourceName! string | The resource.
  restartPolicy! string | NotRequired or RestartContainer.
ContainerRestartRule | Exit codes with their own restart policy.
  action! string | What to do.
  exitCodes ContainerRestartRuleOnExitCodes | For which exit codes.
ContainerRestartRuleOnExitCodes | Which exit codes.
  operator! string | How to compare.
  values [int32] set | The exit codes.
ContainerUser | User that a container runs as.
  linux LinuxContainerUser | Numbers on Linux.
EnvVarSource | Where a value comes from.
  configMapKeyRef ConfigMapKeySelector | A key of a ConfigMap.
  fieldRef ObjectFieldSelector | A field of the pod.
  fileKeyRef FileKeySelector | A key in a file of a volume.
  resourceFieldRef ResourceFieldSelector | A resource of a container.
  secretKeyRef SecretKeySelector | A key of a Secret.
EphemeralContainer | A container that was added to a running pod to debug it.
  args [string] atomic | Arguments, instead of those of the image.
  command [string] atomic | Program to run, instead of that of the image.
  env [EnvVar] map=name patch=merge:name | Environment variables.
  envFrom [EnvFromSource] atomic | Where more environment variables come from.
  image string | Image to run.
  imagePullPolicy string enum=Always,IfNotPresent,Never | When to pull the image.
  lifecycle Lifecycle | What to do after start and before the end.
  livenessProbe Probe | How to find out that it must be restarted.
  name! string | Name, unique within the pod.
  ports [ContainerPort] map=containerPort,protocol patch=merge:containerPort | Ports it listens on.
  readinessProbe Probe | How to find out that it can serve.
  resizePolicy [ContainerResizePolicy] atomic | Whether changed resources need a restart.
  resources ResourceRequirements | Resources it needs and may use.
  restartPolicy string | When it is started again, if not as the pod says.
  restartPolicyRules [ContainerRestartRule] atomic | Exit codes with their own restart policy.
  securityContext SecurityContext | Security settings of this container.
  startupProbe Probe | How to find out that it has started.
  stdin boolean | Whether it has a standard input.
  stdinOnce boolean | Whether standard input closes after the first use.
  targetContainerName string | Container whose processes it sees.
  terminationMessagePath string | File with the last words.
  terminationMessagePolicy string enum=FallbackToLogsOnError,File | Where the last words come from.
  tty boolean | Whether it gets a terminal.
  volumeDevices [VolumeDevice] map=devicePath patch=merge:devicePath | Block devices to use.
  volumeMounts [VolumeMount] map=mountPath patch=merge:mountPath | Volumes to mount.
  workingDir string | Directory it starts in.
ExecAction | Run a command in the container.
  command [string] atomic | The command, with its arguments.
FileKeySelector atomic | A key in a file of a volume.
  key! string | Key.
  optional boolean | Whether it may be missing.
  path! string | Path.
  volumeName! string | The volume.
GRPCAction | Ask the gRPC health service.
  port! int32 | Port, by number or name.
  service string | Service to ask for.
HTTPGetAction | Send an HTTP request.
  host string | Host; that of the pod by default.
  httpHeaders [HTTPHeader] atomic | Headers to send.
  path string | Path to ask for.
  port! IntOrString | Port, by number or name.
  scheme string enum=HTTP,HTTPS | HTTP or HTTPS.
HTTPHeader | A header to send.
  name! string | Name.
  value! string | Value.
HostIP | An address of a node.
  ip! string | The address.
Lifecycle | What to do after start and before the end.
  postStart LifecycleHandler | What to do right after start.
  preStop LifecycleHandler | What to do before the end.
  stopSignal string | Signal to stop it with.
LifecycleHandler | One action.
  exec ExecAction | A command to run.
  httpGet HTTPGetAction | An HTTP request to send.
  sleep SleepAction | How long to wait.
  tcpSocket TCPSocketAction | A TCP port to open.
LinuxContainerUser | Numbers of user and groups.
  gid! int64 | Number of the group.
  supplementalGroups [int64] atomic | Further groups, by number.
  uid! int64 | Number of the user.
NodeAffinity | Which nodes suit a pod.
  preferredDuringSchedulingIgnoredDuringExecution [PreferredSchedulingTerm] atomic | What is preferred.
  requiredDuringSchedulingIgnoredDuringExecution NodeSelector | What must hold.
NodeAllocatableResourceClaimStatus | Node resources that a claim provides.
  containers [string] set | Containers that use it.
  resourceClaimName! string | Name of the claim.
  resources! {Quantity} | Amounts, by resource.
NodeSelector atomic | Terms of which one must hold.
  nodeSelectorTerms! [NodeSelectorTerm] atomic | Terms of which one must hold.
NodeSelectorRequirement | A requirement on a label or field.
  key! string | Key.
  operator! string enum=DoesNotExist,Exists,Gt,In,Lt,NotIn | How to compare.
  values [string] atomic | Values to compare with.
NodeSelectorTerm atomic | Requirements that must all hold.
  matchExpressions [NodeSelectorRequirement] atomic | Requirements on labels.
  matchFields [NodeSelectorRequirement] atomic | Requirements on fields.
ObjectFieldSelector atomic | A field of the pod.
  apiVersion string | Group and version.
  fieldPath! string | Path of the field.
PodAffinity | Which pods to be near to.
  preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm] atomic | What is preferred.
  requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm] atomic | What must hold.
PodAffinityTerm | Pods to be near to, or away from.
  labelSelector LabelSelector | Which pods or objects, by label.
  matchLabelKeys [string] atomic | Labels whose values must be equal to those of the pod.
  mismatchLabelKeys [string] atomic | Labels whose values must differ from those of the pod.
  namespaceSelector LabelSelector | Namespaces of the pods, by label.
  namespaces [string] atomic | Namespaces of the pods.
  topologyKey! string | Label that names a part of the cluster.
PodAntiAffinity | Which pods to stay away from.
  preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm] atomic | What is preferred.
  requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm] atomic | What must hold.
PodDNSConfig | DNS settings of a pod.
  nameservers [string] atomic | Addresses of name servers.
  options [PodDNSConfigOption] atomic | Options of the resolver.
  searches [string] atomic | Domains to search.
PodDNSConfigOption | An option of the resolver.
  name string | Name.
  value string | Value.
PodExtendedResourceClaimStatus | The claim behind extended resources.
  requestMappings! [ContainerExtendedResourceRequest] atomic | Which request became which resource.
  resourceClaimName! string | Name of the claim.
PodIP | An address of a pod.
  ip! string | The address.
PodOS | Operating system that a pod needs.
  name! string | Name.
PodReadinessGate | A condition that counts for readiness.
  conditionType! string | Type of the condition.
PodResourceClaim | A claim for resources of a pod.
  name! string | Name.
  resourceClaimName string | Name of the claim.
  resourceClaimTemplateName string | Template to make the claim from.
PodResourceClaimStatus | State of a claim of a pod.
  name! string | Name.
  resourceClaimName string | Name of the claim.
PodSchedulingGate | Something that holds back scheduling.
  name! string | Name.
PodSchedulingGroup | A group of pods that are placed together.
  podGroupName string | Name of the group.
PodSecurityContext | Security settings of all containers of a pod.
  appArmorProfile AppArmorProfile | AppArmor profile to use.
  fsGroup int64 | Group that owns the volumes.
  fsGroupChangePolicy string enum=Always,OnRootMismatch | When ownership of volumes is changed.
  runAsGroup int64 | Number of the group to run as.
  runAsNonRoot boolean | Whether running as root is refused.
  runAsUser int64 | Number of the user to run as.
  seLinuxChangePolicy string | How volumes get their SELinux label.
  seLinuxOptions SELinuxOptions | SELinux labels to use.
  seccompProfile SeccompProfile | Seccomp profile to use.
  supplementalGroups [int64] atomic | Further groups, by number.
  supplementalGroupsPolicy string enum=Merge,Strict | Whether groups of the image count.
  sysctls [Sysctl] atomic | Kernel parameters to set.
  windowsOptions WindowsSecurityContextOptions | Settings for Windows.
PreferredSchedulingTerm | A preference, with its weight.
  preference! NodeSelectorTerm | What is preferred.
  weight! int32 | How much it counts, from 1 to 100.
Probe | How to check a container.
  exec ExecAction | A command to run.
  failureThreshold int32 | Failures in a row that count.
  grpc GRPCAction | A gRPC health service to ask.
  httpGet HTTPGetAction | An HTTP request to send.
  initialDelaySeconds int32 | Seconds after start before the first check.
  periodSeconds int32 | Seconds between checks.
  successThreshold int32 | Successes in a row that count.
  tcpSocket TCPSocketAction | A TCP port to open.
  terminationGracePeriodSeconds int64 | Seconds to end in peace after a failure.
  timeoutSeconds int32 | Seconds a check may take.
ResourceClaim | A claim that a container uses.
  name! string | Name.
  request string | Which request of the claim.
ResourceFieldSelector atomic | A resource of a container.
  containerName string | The container.
  divisor Quantity | Unit of the value.
  resource! string | The resource.
ResourceHealth | Health of one device.
  health string | Healthy, Unhealthy or Unknown.
  message string | Explanation for people.
  resourceID! string | Id of the device.
ResourceStatus | Health of one resource.
  name! string | Name.
  resources [ResourceHealth] map=resourceID | Health of each device.
SELinuxOptions | SELinux labels.
  level string | SELinux level.
  role string | SELinux role.
  type string | SELinux type.
  user string | SELinux user.
SeccompProfile | A seccomp profile.
  localhostProfile string | Profile on the node.
  type! string enum=Localhost,RuntimeDefault,Unconfined | Where the profile comes from.
SecretEnvSource | All keys of a Secret.
  name string | Name.
  optional boolean | Whether it may be missing.
SecretKeySelector atomic | A key of a Secret.
  key! string | Key.
  name string | Name.
  optional boolean | Whether it may be missing.
SecurityContext | Security settings of a container.
  allowPrivilegeEscalation boolean | Whether a process may gain privileges.
  appArmorProfile AppArmorProfile | AppArmor profile to use.
  capabilities Capabilities | Capabilities to add or drop.
  privileged boolean | Whether it may do everything on the node.
  procMount string enum=Default,Unmasked | How /proc is mounted.
  readOnlyRootFilesystem boolean | Whether its own files cannot be written.
  runAsGroup int64 | Number of the group to run as.
  runAsNonRoot boolean | Whether running as root is refused.
  runAsUser int64 | Number of the user to run as.
  seLinuxOptions SELinuxOptions | SELinux labels to use.
  seccompProfile SeccompProfile | Seccomp profile to use.
  windowsOptions WindowsSecurityContextOptions | Settings for Windows.
SleepAction | Wait.
  seconds! int64 | How long.
Sysctl | A kernel parameter.
  name! string | Name.
  value! string | Value.
TCPSocketAction | Open a TCP connection.
  host string | Host; that of the pod by default.
  port! IntOrString | Port, by number or name.
TopologySpreadConstraint | How pods spread over parts of the cluster.
  labelSelector LabelSelector | Which pods or objects, by label.
  matchLabelKeys [string] atomic | Labels whose values must be equal to those of the pod.
  maxSkew! int32 | How uneven the spread may be.
  minDomains int32 | The fewest parts to spread over.
  nodeAffinityPolicy string enum=Honor,Ignore | Whether node affinity counts.
  nodeTaintsPolicy string enum=Honor,Ignore | Whether taints count.
  topologyKey! string | Label that names a part of the cluster.
  whenUnsatisfiable! string enum=DoNotSchedule,ScheduleAnyway | What to do when it cannot be even.
WeightedPodAffinityTerm | A preference, with its weight.
  podAffinityTerm! PodAffinityTerm | What is preferred.
  weight! int32 | How much it counts, from 1 to 100.
WindowsSecurityContextOptions | Security settings for Windows.
  gmsaCredentialSpec string | Credential specification.
  gmsaCredentialSpecName string | Name of the credential specification.
  hostProcess boolean | Whether it runs on the host itself.
  runAsUserName string | User to run as.
""",
)
"""What the containers and the spec of a Pod refer to."""
