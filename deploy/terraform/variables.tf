variable "cluster_name" {
  description = "The name of the EKS cluster"
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name must be the name of an EKS cluster."
  }
}

variable "identity" {
  description = "How the pods of Holdfast get the controller role: PodIdentity or IRSA"
  type        = string
  default     = "PodIdentity"
  nullable    = false

  validation {
    condition     = contains(["PodIdentity", "IRSA"], var.identity)
    error_message = "identity must be PodIdentity or IRSA."
  }
}

variable "oidc_provider" {
  description = "For IRSA: the OIDC provider of the cluster without https://, for example oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE"
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = can(regex("^[^:]*$", var.oidc_provider))
    error_message = "oidc_provider must be the issuer of the cluster without https://."
  }
}

variable "namespace" {
  description = "The namespace of Holdfast's ServiceAccount"
  type        = string
  default     = "kube-system"
  nullable    = false
}

variable "service_account" {
  description = "The name of Holdfast's ServiceAccount"
  type        = string
  default     = "holdfast"
  nullable    = false
}

variable "create_pod_identity_association" {
  description = "For PodIdentity: whether this module creates the Pod Identity association"
  type        = bool
  default     = true
  nullable    = false
}

variable "create_node_role" {
  description = "Whether this module creates the role of the nodes; false to use an existing one"
  type        = bool
  default     = true
  nullable    = false
}

variable "node_role_name" {
  description = "The role of the nodes, with its path if it has one; empty for KarpenterNodeRole-CLUSTER. With create_node_role false, * stands for several"
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = can(regex("^[0-9A-Za-z_+=,.@/*-]*$", var.node_role_name))
    error_message = "node_role_name must be the name of an IAM role, not its ARN."
  }
}

variable "create_queue" {
  description = "Whether this module creates the interruption queue; false to use the queue and the rules of a Karpenter installation"
  type        = bool
  default     = true
  nullable    = false
}

variable "queue_name" {
  description = "The name of the interruption queue; empty for the name of the cluster"
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = can(regex("^[0-9A-Za-z_-]{0,80}$", var.queue_name))
    error_message = "queue_name must be the name of an SQS queue, not its ARN or URL."
  }
}
