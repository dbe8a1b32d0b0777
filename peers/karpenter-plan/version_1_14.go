//go:build karpenter_1_14

package main

import "sigs.k8s.io/karpenter/pkg/cloudprovider"

const version = "v1.14.1"

// A full reservation is not on offer.
const fullIsAvailable = false

// It knows the limits of nodes that exist only.
func setVolumeLimits(*cloudprovider.InstanceType, map[string]int) {}
