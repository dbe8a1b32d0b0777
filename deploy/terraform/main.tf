# The AWS resources of Holdfast for one EKS cluster; docs/install-aws.md describes them.
# generated.tf.json has the IAM policies and the EventBridge rules.

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  partition  = data.aws_partition.current.partition
  region     = data.aws_region.current.id
  account_id = data.aws_caller_identity.current.account_id
  node_role  = var.node_role_name != "" ? var.node_role_name : "KarpenterNodeRole-${var.cluster_name}"
  queue      = var.queue_name != "" ? var.queue_name : var.cluster_name
  queue_arn  = "arn:${local.partition}:sqs:${local.region}:${local.account_id}:${local.queue}"
  is_irsa    = var.identity == "IRSA"

  # With an existing queue, the rules of Karpenter already send the events that Karpenter handles.
  created_rules = {
    for name, rule in local.interruption_rules : name => rule if var.create_queue || !rule.inKarpenter
  }
}

data "aws_iam_policy_document" "irsa" {
  statement {
    actions = ["sts:AssumeRoleWithWebIdentity"]

    principals {
      type        = "Federated"
      identifiers = ["arn:${local.partition}:iam::${local.account_id}:oidc-provider/${var.oidc_provider}"]
    }

    condition {
      test     = "StringEquals"
      variable = "${var.oidc_provider}:aud"
      values   = ["sts.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "${var.oidc_provider}:sub"
      values   = ["system:serviceaccount:${var.namespace}:${var.service_account}"]
    }
  }
}

data "aws_iam_policy_document" "pod_identity" {
  statement {
    actions = ["sts:AssumeRole", "sts:TagSession"]

    principals {
      type        = "Service"
      identifiers = ["pods.eks.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/eks-cluster-arn"
      values   = ["arn:${local.partition}:eks:${local.region}:${local.account_id}:cluster/${var.cluster_name}"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/kubernetes-namespace"
      values   = [var.namespace]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/kubernetes-service-account"
      values   = [var.service_account]
    }
  }
}

resource "aws_iam_role" "controller" {
  name_prefix = "holdfast-${substr(var.cluster_name, 0, 28)}-"
  description = "The controller of Holdfast on the EKS cluster ${var.cluster_name}"
  assume_role_policy = (
    local.is_irsa
    ? data.aws_iam_policy_document.irsa.json
    : data.aws_iam_policy_document.pod_identity.json
  )

  lifecycle {
    precondition {
      condition     = !local.is_irsa || var.oidc_provider != ""
      error_message = "identity IRSA needs oidc_provider."
    }
  }
}

resource "aws_iam_policy" "controller" {
  for_each = local.controller_policies

  name_prefix = "holdfast-${each.key}-"
  policy      = jsonencode(each.value)
}

resource "aws_iam_role_policy_attachment" "controller" {
  for_each = aws_iam_policy.controller

  role       = aws_iam_role.controller.name
  policy_arn = each.value.arn
}

resource "aws_eks_pod_identity_association" "controller" {
  count = !local.is_irsa && var.create_pod_identity_association ? 1 : 0

  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.controller.arn
}

data "aws_iam_policy_document" "node" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ec2.${data.aws_partition.current.dns_suffix}"]
    }
  }
}

# Without an instance profile: Holdfast creates one for each EC2NodeClass.
resource "aws_iam_role" "node" {
  count = var.create_node_role ? 1 : 0

  name               = local.node_role
  assume_role_policy = data.aws_iam_policy_document.node.json
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = var.create_node_role ? toset([
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonSSMManagedInstanceCore",
  ]) : toset([])

  role       = aws_iam_role.node[0].name
  policy_arn = "arn:${local.partition}:iam::aws:policy/${each.key}"
}

resource "aws_sqs_queue" "interruption" {
  count = var.create_queue ? 1 : 0

  name                      = local.queue
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
}

data "aws_iam_policy_document" "queue" {
  policy_id = "EC2InterruptionPolicy"

  statement {
    sid       = "SendFromRules"
    actions   = ["sqs:SendMessage"]
    resources = [local.queue_arn]

    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com"]
    }

    condition {
      test     = "ArnEquals"
      variable = "aws:SourceArn"
      values   = [for rule in aws_cloudwatch_event_rule.interruption : rule.arn]
    }
  }

  statement {
    sid       = "SendFromSqsOfThisAccount"
    actions   = ["sqs:SendMessage"]
    resources = [local.queue_arn]

    principals {
      type        = "Service"
      identifiers = ["sqs.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account_id]
    }
  }

  statement {
    sid       = "DenyHTTP"
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [local.queue_arn]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_sqs_queue_policy" "interruption" {
  count = var.create_queue ? 1 : 0

  queue_url = aws_sqs_queue.interruption[0].url
  policy    = data.aws_iam_policy_document.queue.json
}

resource "aws_cloudwatch_event_rule" "interruption" {
  for_each = local.created_rules

  name_prefix   = "${each.key}-"
  description   = each.value.description
  event_pattern = jsonencode(each.value.pattern)
}

resource "aws_cloudwatch_event_target" "interruption" {
  for_each = aws_cloudwatch_event_rule.interruption

  rule      = each.value.name
  target_id = "KarpenterInterruptionQueueTarget"
  arn       = local.queue_arn
}
