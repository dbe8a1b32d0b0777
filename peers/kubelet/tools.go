//go:build tools

// Package tools pins the kubelet that `make e2e-install` runs.
package tools

import _ "k8s.io/kubernetes/cmd/kubelet"
