//go:build !karpenter_1_14

package main

import "sigs.k8s.io/karpenter/pkg/cloudprovider"

const version = "v1.15.0"

// A full reservation that is healthy stays on offer, with no room.
const fullIsAvailable = true

func setVolumeLimits(made *cloudprovider.InstanceType, limits map[string]int) {
	made.VolumeAttachmentLimits = limits
}
