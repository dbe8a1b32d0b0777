output "controller_role_arn" {
  description = "For IRSA: the annotation eks.amazonaws.com/role-arn of the ServiceAccount"
  value       = aws_iam_role.controller.arn
}

output "node_role" {
  description = "spec.role of the EC2NodeClasses"
  value       = local.node_role
}

output "interruption_queue" {
  description = "The setting --interruption-queue"
  value       = local.queue
}
