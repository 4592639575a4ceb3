"""Pods: what people write, and what is reported."""

from __future__ import annotations

from nodemanager.server.kinds.schemas.notation import CORE, SchemaPackage

PODS = SchemaPackage(
    CORE,
    "",
    """
Pod kind list | Containers that run together on one node.
  spec PodSpec | Desired state.
  status PodStatus | Present state, as last observed.
PodSpec | What shall run, and how.
  activeDeadlineSeconds int64 | Seconds after which the pod counts as failed.
  affinity Affinity | Rules that draw the pod to nodes or keep it away.
  automountServiceAccountToken boolean | Whether containers get the account's token.
  containers! [Container] map=name patch=merge:name | Containers of the pod, at least one.
  dnsConfig PodDNSConfig | DNS settings on top of the policy.
  dnsPolicy string enum=ClusterFirst,ClusterFirstWithHostNet,Default,None | Where DNS settings come from.
  enableServiceLinks boolean | Whether services appear as environment variables.
  ephemeralContainers [EphemeralContainer] map=name patch=merge:name | Containers added to debug the pod.
  hostAliases [HostAlias] map=ip patch=merge:ip | Extra lines for the hosts file.
  hostIPC boolean | Whether to use the node's IPC namespace.
  hostNetwork boolean | Whether to use the node's network.
  hostPID boolean | Whether to use the node's process namespace.
  hostUsers boolean | Whether to use the node's user namespace.
  hostname string | Host name of the pod.
  hostnameOverride string | Host name as the pod itself sees it, whatever else says.
  imagePullSecrets [LocalObjectReference] map=name patch=merge:name | Secrets to pull images with.
  initContainers [Container] map=name patch=merge:name | Containers that run first, one after the other.
  nodeName string | Node the pod runs on.
  nodeSelector {string} atomic | Labels that the node must have.
  os PodOS | Operating system the containers need.
  overhead {Quantity} | What running a pod costs beyond its containers.
  preemptionPolicy string enum=Never,PreemptLowerPriority | Whether pods of lower priority may be displaced.
  priority int32 | Priority as a number; higher is more important.
  priorityClassName string | Name of the priority.
  readinessGates [PodReadinessGate] atomic | Conditions that count for readiness, too.
  resourceClaims [PodResourceClaim] map=name patch=merge,retainKeys:name | Claims to allocate before start.
  resources ResourceRequirements | Resources of the pod as a whole.
  restartPolicy string enum=Always,Never,OnFailure | When containers are started again.
  runtimeClassName string | Container runtime to use.
  schedulerName string | Scheduler that places the pod.
  schedulingGates [PodSchedulingGate] map=name patch=merge:name | What holds back scheduling.
  schedulingGroup PodSchedulingGroup | Group of pods to place together.
  securityContext PodSecurityContext | Security settings for all containers.
  serviceAccount string | The older name of serviceAccountName.
  serviceAccountName string | Account the pod acts as.
  setHostnameAsFQDN boolean | Whether the host name includes the domain.
  shareProcessNamespace boolean | Whether containers see each other's processes.
  subdomain string | Part of the domain name between host name and namespace.
  terminationGracePeriodSeconds int64 | Seconds to end in peace before being killed.
  tolerations [Toleration] atomic | Taints the pod accepts.
  topologySpreadConstraints [TopologySpreadConstraint] map=topologyKey,whenUnsatisfiable \
patch=merge:topologyKey | How pods spread over zones or nodes.
  volumes [Volume] map=name patch=merge,retainKeys:name | Volumes that containers can mount.
Container | One program of a pod, with its image.
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
  terminationMessagePath string | File with the last words.
  terminationMessagePolicy string enum=FallbackToLogsOnError,File | Where the last words come from.
  tty boolean | Whether it gets a terminal.
  volumeDevices [VolumeDevice] map=devicePath patch=merge:devicePath | Block devices to use.
  volumeMounts [VolumeMount] map=mountPath patch=merge:mountPath | Volumes to mount.
  workingDir string | Directory it starts in.
EnvVar | One environment variable.
  name! string | Name.
  value string | Value.
  valueFrom EnvVarSource | Where the value comes from.
EnvFromSource | A whole set of environment variables.
  configMapRef ConfigMapEnvSource | ConfigMap to take them from.
  prefix string | Text in front of every name.
  secretRef SecretEnvSource | Secret to take them from.
ContainerPort | A port that a container listens on.
  containerPort! int32 | Port number in the pod.
  hostIP string | Node address to bind.
  hostPort int32 | Port number on the node.
  name string | Name.
  protocol string default=TCP enum=SCTP,TCP,UDP | TCP, UDP or SCTP.
VolumeMount | A volume, seen by a container.
  mountPath! string | Where it appears.
  mountPropagation string enum=Bidirectional,HostToContainer,None | How later mounts propagate.
  name! string | Name.
  readOnly boolean | Whether it cannot be written.
  recursiveReadOnly string | Whether mounts below are read-only, too.
  subPath string | Part of the volume to mount.
  subPathExpr string | Part of the volume, with variables.
VolumeDevice | A block device, seen by a container.
  devicePath! string | Where it appears.
  name! string | Name.
ResourceRequirements | Resources needed, and the most that may be used.
  claims [ResourceClaim] map=name | Claims of the pod that are used.
  limits {Quantity} | The most that may be used, by resource.
  requests {Quantity} | What is set aside, by resource.
Volume | Storage for the containers of a pod; one source is set.
  awsElasticBlockStore AWSElasticBlockStoreVolumeSource | A disk of AWS.
  azureDisk AzureDiskVolumeSource | A disk of Azure.
  azureFile AzureFileVolumeSource | A file share of Azure.
  cephfs CephFSVolumeSource | A CephFS share.
  cinder CinderVolumeSource | A disk of OpenStack.
  configMap ConfigMapVolumeSource | Files from a ConfigMap.
  csi CSIVolumeSource | A volume of a CSI driver.
  downwardAPI DownwardAPIVolumeSource | Files about the pod itself.
  emptyDir EmptyDirVolumeSource | A directory that lives as long as the pod.
  ephemeral EphemeralVolumeSource | A volume that is made with the pod and goes with it.
  fc FCVolumeSource | A Fibre Channel disk.
  flexVolume FlexVolumeSource | A volume of an older driver.
  flocker FlockerVolumeSource | A Flocker volume.
  gcePersistentDisk GCEPersistentDiskVolumeSource | A disk of Google Cloud.
  gitRepo GitRepoVolumeSource | A clone of a git repository.
  glusterfs GlusterfsVolumeSource | A Gluster share.
  hostPath HostPathVolumeSource | A path of the node.
  image ImageVolumeSource | The content of an image.
  iscsi ISCSIVolumeSource | An iSCSI disk.
  name! string | Name.
  nfs NFSVolumeSource | An NFS share.
  persistentVolumeClaim PersistentVolumeClaimVolumeSource | A claim in the same namespace.
  photonPersistentDisk PhotonPersistentDiskVolumeSource | A disk of Photon.
  portworxVolume PortworxVolumeSource | A Portworx volume.
  projected ProjectedVolumeSource | Several sources in one directory.
  quobyte QuobyteVolumeSource | A Quobyte share.
  rbd RBDVolumeSource | A Ceph block device.
  scaleIO ScaleIOVolumeSource | A ScaleIO volume.
  secret SecretVolumeSource | Files from a Secret.
  storageos StorageOSVolumeSource | A StorageOS volume.
  vsphereVolume VsphereVirtualDiskVolumeSource | A disk of vSphere.
Toleration | A taint that a pod accepts.
  effect string enum=NoExecute,NoSchedule,PreferNoSchedule | Effect.
  key string | Key.
  operator string enum=Equal,Exists,Gt,Lt | How to compare.
  tolerationSeconds int64 | How long to stay on a node with NoExecute.
  value string | Value.
HostAlias | A line of the hosts file.
  hostnames [string] atomic | Names for the address.
  ip! string | The address.
PodStatus | What is known about a running pod.
  allocatedResources {Quantity} | What the node has set aside, by resource.
  conditions [PodCondition] map=type patch=merge:type | Aspects of the present state, one per type.
  containerStatuses [ContainerStatus] atomic | State of each container.
  ephemeralContainerStatuses [ContainerStatus] atomic | State of each debug container.
  extendedResourceClaimStatus PodExtendedResourceClaimStatus | Claim made for extended resources.
  hostIP string | Address of the node.
  hostIPs [HostIP] atomic patch=merge:ip | Addresses of the node.
  initContainerStatuses [ContainerStatus] atomic | State of each init container.
  message string | Explanation for people.
  nodeAllocatableResourceClaimStatuses [NodeAllocatableResourceClaimStatus] atomic | Node resources by claim.
  nominatedNodeName string | Node that is being made free for the pod.
  observedGeneration int64 | Generation of the object that this was made from.
  phase string enum=Failed,Pending,Running,Succeeded,Unknown | Where it is in its life, in one word.
  podIP string | Address of the pod.
  podIPs [PodIP] map=ip patch=merge:ip | Addresses of the pod.
  qosClass string enum=BestEffort,Burstable,Guaranteed | Class of service that follows from the resources.
  reason string | One word for programs that says why.
  resize string | State of a change of resources.
  resourceClaimStatuses [PodResourceClaimStatus] map=name patch=merge,retainKeys:name | State of the claims.
  resources ResourceRequirements | Resources of the pod as they are now.
  startTime Time | When the node took it on.
PodCondition | One aspect of the state of a pod.
  lastProbeTime Time | When the condition was last checked.
  lastTransitionTime Time | When the status last changed.
  message string | Explanation for people.
  observedGeneration int64 | Generation of the object that this was made from.
  reason string | One word for programs that says why.
  status! string | True, False or Unknown.
  type! string | Name of the aspect, for example Ready.
ContainerStatus | State of one container.
  allocatedResources {Quantity} | What the node has set aside, by resource.
  allocatedResourcesStatus [ResourceStatus] map=name patch=merge:name | Health of the resources set aside.
  containerID string | Id of the container, with its runtime.
  image! string | Image that runs.
  imageID! string | Id of that image.
  lastState ContainerState | How it ended the last time.
  name! string | Name.
  ready! boolean | Whether it can serve.
  resources ResourceRequirements | Resources as they are now.
  restartCount! int32 | How often it was started again.
  started boolean | Whether it has started.
  state ContainerState | What it does now.
  stopSignal string | Signal it is stopped with.
  user ContainerUser | User it runs as.
  volumeMounts [VolumeMountStatus] map=mountPath patch=merge:mountPath | State of its mounts.
ContainerState | Waiting, running or terminated; one is set.
  running ContainerStateRunning | It runs.
  terminated ContainerStateTerminated | It has ended.
  waiting ContainerStateWaiting | It has not started yet.
ContainerStateRunning | A container that runs.
  startedAt Time | When it started.
ContainerStateWaiting | A container that has not started.
  message string | Explanation for people.
  reason string | One word for programs that says why.
ContainerStateTerminated | A container that has ended.
  containerID string | Id of the container, with its runtime.
  exitCode! int32 | Its exit code.
  finishedAt Time | When it ended.
  message string | Explanation for people.
  reason string | One word for programs that says why.
  signal int32 | Signal that ended it.
  startedAt Time | When it started.
""",
)
"""A Pod, its containers, volumes and status."""
