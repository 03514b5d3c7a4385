"""What the fields of a pod's spec are called within a ``kube-apiserver`` (v1.36): it tells differences in these names.

Learnt from such differences. After a name: ``'`` text, ``#`` a number, ``?`` a boolean, all of them never null; ``:``
and the type of an object or of a list of objects, ``!`` that of an object that is never null. All others may be null.
"""

from typing import Final

RENAMED: Final = {
    "EndpointsName": "endpoints",
    "CephMonitors": "monitors",
    "RBDImage": "image",
    "RBDPool": "pool",
    "RadosUser": "user",
    "DataDiskURI": "diskURI",
    "DiscoveryCHAPAuth": "chapAuthDiscovery",
    "SessionCHAPAuth": "chapAuthSession",
}
"""The names that differ from the API's in more than capitals."""

SHAPES: Final = {
    "PodSpec": """
        Volumes:Volume InitContainers:Container Containers:Container EphemeralContainers:EphemeralContainer
        RestartPolicy' TerminationGracePeriodSeconds ActiveDeadlineSeconds DNSPolicy' NodeSelector
        ServiceAccountName' AutomountServiceAccountToken NodeName' SecurityContext:PodSecurityContext
        ImagePullSecrets:LocalObjectReference Hostname' Subdomain' SetHostnameAsFQDN Affinity:Affinity
        SchedulerName' Tolerations:Toleration HostAliases:HostAlias PriorityClassName' Priority PreemptionPolicy
        DNSConfig:PodDNSConfig ReadinessGates:PodReadinessGate RuntimeClassName Overhead EnableServiceLinks
        TopologySpreadConstraints:TopologySpreadConstraint OS:PodOS SchedulingGates:PodSchedulingGate
        ResourceClaims:PodResourceClaim Resources:ResourceRequirements HostnameOverride SchedulingGroup
    """,
    "Volume": """
        Name' HostPath:HostPath EmptyDir:EmptyDir GCEPersistentDisk:GCEPersistentDisk
        AWSElasticBlockStore:AWSElasticBlockStore GitRepo:GitRepo Secret:Secret NFS:NFS ISCSI:ISCSI
        Glusterfs:Glusterfs PersistentVolumeClaim:PersistentVolumeClaim RBD:RBD Quobyte:Quobyte FlexVolume:Flex
        Cinder:Cinder CephFS:CephFS Flocker:Flocker DownwardAPI:DownwardAPI FC:FC AzureFile:AzureFile
        ConfigMap:ConfigMap VsphereVolume:VsphereVirtualDisk AzureDisk:AzureDisk
        PhotonPersistentDisk:PhotonPersistentDisk Projected:Projected PortworxVolume:Portworx ScaleIO:ScaleIO
        StorageOS:StorageOS CSI:CSI Ephemeral:Ephemeral Image:Image
    """,
    "HostPath": "Path' Type",
    "EmptyDir": "Medium' SizeLimit",
    "GCEPersistentDisk": "PDName' FSType' Partition# ReadOnly?",
    "AWSElasticBlockStore": "VolumeID' FSType' Partition# ReadOnly?",
    "GitRepo": "Repository' Revision' Directory'",
    "Secret": "SecretName' Items:KeyToPath DefaultMode Optional",
    "KeyToPath": "Key' Path' Mode",
    "NFS": "Server' Path' ReadOnly?",
    "ISCSI": """
        TargetPortal' IQN' Lun# ISCSIInterface' FSType' ReadOnly? Portals DiscoveryCHAPAuth? SessionCHAPAuth?
        SecretRef:LocalObjectReference InitiatorName
    """,
    "LocalObjectReference": "Name'",
    "Glusterfs": "EndpointsName' Path' ReadOnly?",
    "PersistentVolumeClaim": "ClaimName' ReadOnly?",
    "RBD": "CephMonitors RBDImage' FSType' RBDPool' RadosUser' Keyring' SecretRef:LocalObjectReference ReadOnly?",
    "Quobyte": "Registry' Volume' ReadOnly? User' Group' Tenant'",
    "Flex": "Driver' FSType' SecretRef:LocalObjectReference ReadOnly? Options",
    "Cinder": "VolumeID' FSType' ReadOnly? SecretRef:LocalObjectReference",
    "CephFS": "Monitors Path' User' SecretFile' SecretRef:LocalObjectReference ReadOnly?",
    "Flocker": "DatasetName' DatasetUUID'",
    "DownwardAPI": "Items:DownwardAPIVolumeFile DefaultMode",
    "DownwardAPIVolumeFile": "Path' FieldRef:ObjectFieldSelector ResourceFieldRef:ResourceFieldSelector Mode",
    "ObjectFieldSelector": "APIVersion' FieldPath'",
    "ResourceFieldSelector": "ContainerName' Resource' Divisor'",
    "FC": "TargetWWNs Lun FSType' ReadOnly? WWIDs",
    "AzureFile": "SecretName' ShareName' ReadOnly?",
    "ConfigMap": "Name' Items:KeyToPath DefaultMode Optional",
    "VsphereVirtualDisk": "VolumePath' FSType' StoragePolicyName' StoragePolicyID'",
    "AzureDisk": "DiskName' DataDiskURI' CachingMode FSType ReadOnly Kind",
    "PhotonPersistentDisk": "PdID' FSType'",
    "Projected": "Sources:VolumeProjection DefaultMode",
    "VolumeProjection": """
        Secret:SecretProjection DownwardAPI:DownwardAPIProjection ConfigMap:ConfigMapProjection
        ServiceAccountToken:ServiceAccountTokenProjection ClusterTrustBundle PodCertificate
    """,
    "SecretProjection": "Name' Items:KeyToPath Optional",
    "DownwardAPIProjection": "Items:DownwardAPIVolumeFile",
    "ConfigMapProjection": "Name' Items:KeyToPath Optional",
    "ServiceAccountTokenProjection": "Audience' ExpirationSeconds# Path'",
    "Portworx": "VolumeID' FSType' ReadOnly?",
    "ScaleIO": """
        Gateway' System' SecretRef:LocalObjectReference SSLEnabled? ProtectionDomain' StoragePool' StorageMode'
        VolumeName' FSType' ReadOnly?
    """,
    "StorageOS": "VolumeName' VolumeNamespace' FSType' ReadOnly? SecretRef:LocalObjectReference",
    "CSI": "Driver' ReadOnly FSType VolumeAttributes NodePublishSecretRef:LocalObjectReference",
    "Ephemeral": "VolumeClaimTemplate:PersistentVolumeClaimTemplate",
    "PersistentVolumeClaimSpec": """
        AccessModes Selector:LabelSelector Resources!VolumeResourceRequirements VolumeName' StorageClassName
        VolumeMode DataSource:TypedLocalObjectReference DataSourceRef:TypedObjectReference
        VolumeAttributesClassName
    """,
    "VolumeResourceRequirements": "Limits Requests",
    "TypedLocalObjectReference": "APIGroup Kind' Name'",
    "TypedObjectReference": "APIGroup Kind' Name' Namespace",
    "Image": "Reference' PullPolicy'",
    "Container": """
        Name' Image' Command Args WorkingDir' Ports:ContainerPort EnvFrom:EnvFromSource Env:EnvVar
        Resources!ResourceRequirements ResizePolicy:ContainerResizePolicy RestartPolicy
        RestartPolicyRules:ContainerRestartRule VolumeMounts:VolumeMount VolumeDevices:VolumeDevice
        LivenessProbe:Probe ReadinessProbe:Probe StartupProbe:Probe Lifecycle:Lifecycle TerminationMessagePath'
        TerminationMessagePolicy' ImagePullPolicy' SecurityContext:SecurityContext Stdin? StdinOnce? TTY?
    """,
    "ContainerPort": "Name' HostPort# ContainerPort# Protocol' HostIP'",
    "EnvFromSource": "Prefix' ConfigMapRef:ConfigMapEnvSource SecretRef:SecretEnvSource",
    "ConfigMapEnvSource": "Name' Optional",
    "SecretEnvSource": "Name' Optional",
    "EnvVar": "Name' Value' ValueFrom:EnvVarSource",
    "EnvVarSource": """
        FieldRef:ObjectFieldSelector ResourceFieldRef:ResourceFieldSelector ConfigMapKeyRef:ConfigMapKeySelector
        SecretKeyRef:SecretKeySelector FileKeyRef:FileKeySelector
    """,
    "ConfigMapKeySelector": "Name' Key' Optional",
    "SecretKeySelector": "Name' Key' Optional",
    "FileKeySelector": "VolumeName' Path' Key' Optional",
    "ResourceRequirements": "Limits Requests Claims:ResourceClaim",
    "ResourceClaim": "Name' Request'",
    "ContainerResizePolicy": "ResourceName' RestartPolicy'",
    "ContainerRestartRule": "Action' ExitCodes:ContainerRestartRuleOnExitCodes",
    "ContainerRestartRuleOnExitCodes": "Operator' Values",
    "VolumeMount": "Name' ReadOnly? RecursiveReadOnly MountPath' SubPath' MountPropagation SubPathExpr'",
    "VolumeDevice": "Name' DevicePath'",
    "Probe": """
        Exec:ExecAction HTTPGet:HTTPGetAction TCPSocket:TCPSocketAction GRPC:GRPCAction InitialDelaySeconds#
        TimeoutSeconds# PeriodSeconds# SuccessThreshold# FailureThreshold# TerminationGracePeriodSeconds
    """,
    "ExecAction": "Command",
    "HTTPGetAction": "Path' Port# Host' Scheme' HTTPHeaders:HTTPHeader",
    "HTTPHeader": "Name' Value'",
    "TCPSocketAction": "Port# Host'",
    "GRPCAction": "Port# Service'",
    "Lifecycle": "PostStart:LifecycleHandler PreStop:LifecycleHandler StopSignal",
    "LifecycleHandler": "Exec:ExecAction HTTPGet:HTTPGetAction TCPSocket:TCPSocketAction Sleep:SleepAction",
    "SleepAction": "Seconds#",
    "SecurityContext": """
        Capabilities:Capabilities Privileged SELinuxOptions:SELinuxOptions
        WindowsOptions:WindowsSecurityContextOptions RunAsUser RunAsGroup RunAsNonRoot ReadOnlyRootFilesystem
        AllowPrivilegeEscalation ProcMount SeccompProfile:SeccompProfile AppArmorProfile:AppArmorProfile
    """,
    "Capabilities": "Add Drop",
    "SELinuxOptions": "User' Role' Type' Level'",
    "WindowsSecurityContextOptions": "GMSACredentialSpecName GMSACredentialSpec RunAsUserName HostProcess",
    "SeccompProfile": "Type' LocalhostProfile",
    "AppArmorProfile": "Type' LocalhostProfile",
    "PodSecurityContext": """
        HostNetwork? HostPID? HostIPC? ShareProcessNamespace HostUsers SELinuxOptions:SELinuxOptions
        WindowsOptions:WindowsSecurityContextOptions RunAsUser RunAsGroup RunAsNonRoot SupplementalGroups
        SupplementalGroupsPolicy FSGroup FSGroupChangePolicy Sysctls:Sysctl SeccompProfile:SeccompProfile
        AppArmorProfile:AppArmorProfile SELinuxChangePolicy
    """,
    "Sysctl": "Name' Value'",
    "Affinity": "NodeAffinity:NodeAffinity PodAffinity:PodAffinity PodAntiAffinity:PodAffinity",
    "NodeAffinity": """
        RequiredDuringSchedulingIgnoredDuringExecution:NodeSelector
        PreferredDuringSchedulingIgnoredDuringExecution:PreferredSchedulingTerm
    """,
    "NodeSelector": "NodeSelectorTerms:NodeSelectorTerm",
    "NodeSelectorTerm": "MatchExpressions:NodeSelectorRequirement MatchFields:NodeSelectorRequirement",
    "NodeSelectorRequirement": "Key' Operator' Values",
    "PreferredSchedulingTerm": "Weight# Preference!NodeSelectorTerm",
    "PodAffinity": """
        RequiredDuringSchedulingIgnoredDuringExecution:PodAffinityTerm
        PreferredDuringSchedulingIgnoredDuringExecution:WeightedPodAffinityTerm
    """,
    "PodAffinityTerm": """
        LabelSelector:LabelSelector Namespaces TopologyKey' NamespaceSelector:LabelSelector MatchLabelKeys
        MismatchLabelKeys
    """,
    "WeightedPodAffinityTerm": "Weight# PodAffinityTerm!PodAffinityTerm",
    "Toleration": "Key' Operator' Value' Effect' TolerationSeconds",
    "HostAlias": "IP' Hostnames",
    "PodDNSConfig": "Nameservers Searches Options:PodDNSConfigOption",
    "PodDNSConfigOption": "Name' Value",
    "PodReadinessGate": "ConditionType'",
    "TopologySpreadConstraint": """
        MaxSkew# TopologyKey' WhenUnsatisfiable' LabelSelector:LabelSelector MinDomains NodeAffinityPolicy
        NodeTaintsPolicy MatchLabelKeys
    """,
    "PodOS": "Name'",
    "PodSchedulingGate": "Name'",
    "PodResourceClaim": "Name' ResourceClaimName ResourceClaimTemplateName",
}
