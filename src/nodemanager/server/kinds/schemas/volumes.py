"""Sources of volumes; most kinds of storage are of interest to a kubelet only."""

from __future__ import annotations

from nodemanager.server.kinds.schemas.notation import CORE, SchemaPackage

VOLUMES = SchemaPackage(
    CORE,
    "",
    """
AWSElasticBlockStoreVolumeSource | A disk of AWS.
  fsType string | File system.
  partition int32 | Number of the partition.
  readOnly boolean | Whether it cannot be written.
  volumeID! string | Id of the volume.
AzureDiskVolumeSource | A disk of Azure.
  cachingMode string default=ReadWrite enum=None,ReadOnly,ReadWrite | How the host caches.
  diskName! string | Name of the disk.
  diskURI! string | Address of the disk.
  fsType string default=ext4 | File system.
  kind string default=Shared enum=Dedicated,Managed,Shared | Kind of disk.
  readOnly boolean | Whether it cannot be written.
AzureFileVolumeSource | A file share of Azure.
  readOnly boolean | Whether it cannot be written.
  secretName! string | Name of the Secret.
  shareName! string | Name of the share.
CSIVolumeSource | A volume of a CSI driver.
  driver! string | Name of the driver.
  fsType string | File system.
  nodePublishSecretRef LocalObjectReference | Secret for the driver.
  readOnly boolean | Whether it cannot be written.
  volumeAttributes {string} | Settings of the driver.
CephFSVolumeSource | A CephFS share.
  monitors! [string] atomic | Addresses of the monitors.
  path string | Path.
  readOnly boolean | Whether it cannot be written.
  secretFile string | File with the credentials.
  secretRef LocalObjectReference | Secret with the credentials.
  user string | User to log in as.
CinderVolumeSource | A disk of OpenStack.
  fsType string | File system.
  readOnly boolean | Whether it cannot be written.
  secretRef LocalObjectReference | Secret with the credentials.
  volumeID! string | Id of the volume.
ClusterTrustBundleProjection | Trusted certificates as a file.
  labelSelector LabelSelector | Which pods or objects, by label.
  name string | Name.
  optional boolean | Whether it may be missing.
  path! string | Path.
  signerName string | Name of the signer.
ConfigMapProjection | Files from a ConfigMap.
  items [KeyToPath] atomic | Which keys become which files; all when empty.
  name string | Name.
  optional boolean | Whether it may be missing.
ConfigMapVolumeSource | Files from a ConfigMap.
  defaultMode int32 | Permission bits of files that say nothing else.
  items [KeyToPath] atomic | Which keys become which files; all when empty.
  name string | Name.
  optional boolean | Whether it may be missing.
DownwardAPIProjection | Files about the pod itself.
  items [DownwardAPIVolumeFile] atomic | Which keys become which files; all when empty.
DownwardAPIVolumeFile | A fact about the pod, as a file.
  fieldRef ObjectFieldSelector | A field of the pod.
  mode int32 | Permission bits of the file.
  path! string | Path.
  resourceFieldRef ResourceFieldSelector | A resource of a container.
DownwardAPIVolumeSource | Files about the pod itself.
  defaultMode int32 | Permission bits of files that say nothing else.
  items [DownwardAPIVolumeFile] atomic | Which keys become which files; all when empty.
EmptyDirVolumeSource | A directory that lives as long as the pod.
  medium string | Memory, or empty for the disk.
  sizeLimit Quantity | The most it may hold.
EphemeralVolumeSource | A volume that goes with the pod.
  volumeClaimTemplate PersistentVolumeClaimTemplate | The claim to make.
FCVolumeSource | A Fibre Channel disk.
  fsType string | File system.
  lun int32 | Number of the unit.
  readOnly boolean | Whether it cannot be written.
  targetWWNs [string] atomic | World wide names.
  wwids [string] atomic | World wide ids.
FlexVolumeSource | A volume of an older driver.
  driver! string | Name of the driver.
  fsType string | File system.
  options {string} | Settings of the driver.
  readOnly boolean | Whether it cannot be written.
  secretRef LocalObjectReference | Secret with the credentials.
FlockerVolumeSource | A Flocker volume.
  datasetName string | Name of the data set.
  datasetUUID string | Id of the data set.
GCEPersistentDiskVolumeSource | A disk of Google Cloud.
  fsType string | File system.
  partition int32 | Number of the partition.
  pdName! string | Name of the disk.
  readOnly boolean | Whether it cannot be written.
GitRepoVolumeSource | A clone of a git repository.
  directory string | Where to put it.
  repository! string | Address of the repository.
  revision string | Commit to check out.
GlusterfsVolumeSource | A Gluster share.
  endpoints! string | Endpoints of the servers.
  path! string | Path.
  readOnly boolean | Whether it cannot be written.
HostPathVolumeSource | A path of the node.
  path! string | Path.
  type string enum=,BlockDevice,CharDevice,Directory,DirectoryOrCreate,File,FileOrCreate,Socket \
| What must be at the path.
ISCSIVolumeSource | An iSCSI disk.
  chapAuthDiscovery boolean | Whether discovery uses CHAP.
  chapAuthSession boolean | Whether sessions use CHAP.
  fsType string | File system.
  initiatorName string | Name of the initiator.
  iqn! string | Name of the target.
  iscsiInterface string default=default | Interface to use.
  lun! int32 | Number of the unit.
  portals [string] atomic | Further portals.
  readOnly boolean | Whether it cannot be written.
  secretRef LocalObjectReference | Secret with the credentials.
  targetPortal! string | Portal of the target.
ImageVolumeSource | The content of an image.
  pullPolicy string enum=Always,IfNotPresent,Never | When to pull the image.
  reference string | Image to mount.
ImageVolumeStatus | State of an image that is mounted.
  imageRef! string | Image that is mounted.
KeyToPath | A key, as a file.
  key! string | Key.
  mode int32 | Permission bits of the file.
  path! string | Path of the file.
NFSVolumeSource | An NFS share.
  path! string | Path.
  readOnly boolean | Whether it cannot be written.
  server! string | Address of the server.
PersistentVolumeClaimSpec | What storage is wanted.
  accessModes [string] atomic enum=ReadOnlyMany,ReadWriteMany,ReadWriteOnce,ReadWriteOncePod \
| How it may be mounted.
  dataSource TypedLocalObjectReference | What it starts with.
  dataSourceRef TypedObjectReference | What it starts with, in the newer form.
  resources VolumeResourceRequirements | How much storage.
  selector LabelSelector | Which volumes, by label.
  storageClassName string | Class of the storage.
  volumeAttributesClassName string | Class of its attributes.
  volumeMode string enum=Block,Filesystem | Block or Filesystem.
  volumeName string | Name of the volume.
PersistentVolumeClaimTemplate | The claim to make.
  metadata ObjectMeta | Labels and annotations of the claim.
  spec! PersistentVolumeClaimSpec | Desired state.
PersistentVolumeClaimVolumeSource | A claim in the same namespace.
  claimName! string | Name of the claim.
  readOnly boolean | Whether it cannot be written.
PhotonPersistentDiskVolumeSource | A disk of Photon.
  fsType string | File system.
  pdID! string | Id of the disk.
PodCertificateProjection | A certificate for the pod, as files.
  certificateChainPath string | File for the certificates.
  credentialBundlePath string | File for key and certificates.
  keyPath string | File for the key.
  keyType! string | Kind of key.
  maxExpirationSeconds int32 | The longest time it may be valid.
  signerName! string | Name of the signer.
  userAnnotations {string} | Notes for the signer.
PortworxVolumeSource | A Portworx volume.
  fsType string | File system.
  readOnly boolean | Whether it cannot be written.
  volumeID! string | Id of the volume.
ProjectedVolumeSource | Several sources in one directory.
  defaultMode int32 | Permission bits of files that say nothing else.
  sources [VolumeProjection] atomic | What is put together.
QuobyteVolumeSource | A Quobyte share.
  group string | Group to use.
  readOnly boolean | Whether it cannot be written.
  registry! string | Addresses of the registry.
  tenant string | Tenant of the volume.
  user string | User to log in as.
  volume! string | Name of the volume.
RBDVolumeSource | A Ceph block device.
  fsType string | File system.
  image! string | Name of the image.
  keyring string default=/etc/ceph/keyring | File with the keys.
  monitors! [string] atomic | Addresses of the monitors.
  pool string default=rbd | Name of the pool.
  readOnly boolean | Whether it cannot be written.
  secretRef LocalObjectReference | Secret with the credentials.
  user string default=admin | User to log in as.
ScaleIOVolumeSource | A ScaleIO volume.
  fsType string default=xfs | File system.
  gateway! string | Address of the gateway.
  protectionDomain string | Protection domain.
  readOnly boolean | Whether it cannot be written.
  secretRef! LocalObjectReference | Secret with the credentials.
  sslEnabled boolean | Whether to use TLS.
  storageMode string default=ThinProvisioned | Thick or thin.
  storagePool string | Storage pool.
  system! string | Name of the system.
  volumeName string | Name of the volume.
SecretProjection | Files from a Secret.
  items [KeyToPath] atomic | Which keys become which files; all when empty.
  name string | Name.
  optional boolean | Whether it may be missing.
SecretVolumeSource | Files from a Secret.
  defaultMode int32 | Permission bits of files that say nothing else.
  items [KeyToPath] atomic | Which keys become which files; all when empty.
  optional boolean | Whether it may be missing.
  secretName string | Name of the Secret.
ServiceAccountTokenProjection | A token as a file.
  audience string | Who may accept it.
  expirationSeconds int64 | How long it shall be valid.
  path! string | Path.
StorageOSVolumeSource | A StorageOS volume.
  fsType string | File system.
  readOnly boolean | Whether it cannot be written.
  secretRef LocalObjectReference | Secret with the credentials.
  volumeName string | Name of the volume.
  volumeNamespace string | Namespace of the volume.
TypedLocalObjectReference atomic | An object in the same namespace.
  apiGroup string | API group of the kind.
  kind! string | Kind of the object.
  name! string | Name.
TypedObjectReference | An object, possibly in another namespace.
  apiGroup string | API group of the kind.
  kind! string | Kind of the object.
  name! string | Name.
  namespace string | Namespace.
VolumeMountStatus | State of a mount.
  mountPath! string | Where it appears.
  name! string | Name.
  readOnly boolean | Whether it cannot be written.
  recursiveReadOnly string | Whether mounts below are read-only, too.
  volumeStatus VolumeStatus | State of the volume.
VolumeProjection | One source of a projected volume.
  clusterTrustBundle ClusterTrustBundleProjection | Trusted certificates.
  configMap ConfigMapProjection | Keys of a ConfigMap.
  downwardAPI DownwardAPIProjection | Facts about the pod.
  podCertificate PodCertificateProjection | A certificate for the pod.
  secret SecretProjection | Keys of a Secret.
  serviceAccountToken ServiceAccountTokenProjection | A token.
VolumeResourceRequirements | Storage needed, and the most that may be used.
  limits {Quantity} | The most that may be used, by resource.
  requests {Quantity} | What is set aside, by resource.
VolumeStatus | State of a volume.
  image ImageVolumeStatus | State of an image.
VsphereVirtualDiskVolumeSource | A disk of vSphere.
  fsType string | File system.
  storagePolicyID string | Id of the storage policy.
  storagePolicyName string | Name of the storage policy.
  volumePath! string | Path of the disk.
""",
)
"""What the volumes of a Pod refer to."""
