package main

import (
	"context"
	"errors"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

const (
	group                 = "karpenter.k8s.aws"
	reservationID         = group + "/capacity-reservation-id"
	reservationType       = group + "/capacity-reservation-type"
	interruptible         = group + "/capacity-reservation-interruptible"
	zoneID                = "topology.k8s.aws/zone-id"
	reservationAnnotation = "holdfast.dev/reservation-id"
	ebsZone               = "topology.ebs.csi.aws.com/zone"
	blockDrainSeconds     = 40 * 60
)

// What Karpenter's AWS side tells its core.
func init() {
	v1.RestrictedLabelDomains = v1.RestrictedLabelDomains.Insert(group)
	v1.WellKnownLabels = v1.WellKnownLabels.Insert(reservationID, reservationType, interruptible, zoneID)
	for _, name := range []string{
		"instance-hypervisor", "instance-encryption-in-transit-supported", "instance-category",
		"instance-capability-flex", "instance-family", "instance-generation", "instance-size", "instance-local-nvme",
		"instance-cpu", "instance-cpu-manufacturer", "instance-cpu-sustained-clock-speed-mhz", "instance-memory",
		"instance-ebs-bandwidth", "instance-network-bandwidth", "instance-gpu-name", "instance-gpu-manufacturer",
		"instance-gpu-count", "instance-gpu-memory", "instance-accelerator-name", "instance-accelerator-manufacturer",
		"instance-accelerator-count", "instance-tenancy", "placement-group-id", "placement-group-partition",
	} {
		v1.WellKnownLabels = v1.WellKnownLabels.Insert(group + "/" + name)
	}
	v1.WellKnownLabels = v1.WellKnownLabels.Insert(corev1.LabelWindowsBuild)
	v1.NormalizedLabels[ebsZone] = corev1.LabelTopologyZone
	cloudprovider.ReservationIDLabel = reservationID
	cloudprovider.ReservedCapacityLabels.Insert(reservationID, reservationType, interruptible)
	gv := schema.GroupVersion{Group: group, Version: "v1"}
	metav1.AddToGroupVersion(scheme.Scheme, gv)
	scheme.Scheme.AddKnownTypes(gv, &EC2NodeClass{})
}

// EC2NodeClass as far as a plan depends on it.
type EC2NodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Terms []SelectorTerm `json:"capacityReservationSelectorTerms"`
	} `json:"spec"`
	Status struct {
		Reservations []struct {
			ID    string `json:"id"`
			State string `json:"state"`
		} `json:"capacityReservations"`
	} `json:"status"`
}

type SelectorTerm struct {
	ID            string            `json:"id"`
	OwnerID       string            `json:"ownerID"`
	Tags          map[string]string `json:"tags"`
	MatchCriteria string            `json:"instanceMatchCriteria"`
}

func (c *EC2NodeClass) DeepCopyObject() runtime.Object { copied := *c; return &copied }

// Karpenter asks a class for its kind only, never for its conditions.
func (c *EC2NodeClass) GetConditions() []status.Condition { return nil }
func (c *EC2NodeClass) SetConditions([]status.Condition)  {}
func (c *EC2NodeClass) StatusConditions(...status.ForOption) status.ConditionSet {
	return status.NewReadyConditions().For(c)
}

// provider offers what the Catalog lists. Launching is not its business: see rounds.go.
type provider struct {
	byPool map[string][]*cloudprovider.InstanceType
}

var errNoCloud = errors.New("there is no cloud behind a scenario")

func (p *provider) GetInstanceTypes(_ context.Context, pool *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return p.byPool[pool.Name], nil
}
func (p *provider) GetSupportedNodeClasses() []status.Object { return []status.Object{&EC2NodeClass{}} }
func (p *provider) Name() string                             { return "catalog" }
func (p *provider) RepairPolicies() []cloudprovider.RepairPolicy {
	return nil
}
func (p *provider) Create(context.Context, *v1.NodeClaim) (*v1.NodeClaim, error) {
	return nil, errNoCloud
}
func (p *provider) Delete(context.Context, *v1.NodeClaim) error         { return errNoCloud }
func (p *provider) Get(context.Context, string) (*v1.NodeClaim, error)  { return nil, errNoCloud }
func (p *provider) List(context.Context) ([]*v1.NodeClaim, error)       { return nil, nil }
func (p *provider) Reboot(context.Context, *v1.NodeClaim, string) error { return errNoCloud }
func (p *provider) IsDrifted(context.Context, *v1.NodeClaim) (cloudprovider.DriftReason, error) {
	return "", nil
}
