package main

import (
	"math/big"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/resources"
)

// Plan is the document of docs/scenario.md.
type Plan struct {
	APIVersion  string         `json:"apiVersion"`
	Kind        string         `json:"kind"`
	Claims      []Claim        `json:"claims"`
	Nodes       []OnNode       `json:"nodes"`
	Unplaced    []Unplaced     `json:"unplaced"`
	Waiting     []Unplaced     `json:"waiting"`
	NotReserved []Unplaced     `json:"notReserved"`
	Cost        Cost           `json:"cost"`
	SlotsLeft   map[string]int `json:"slotsLeft"`
}

type Claim struct {
	NodePool       string                                    `json:"nodePool"`
	InstanceType   string                                    `json:"instanceType"`
	Zone           string                                    `json:"zone"`
	CapacityType   string                                    `json:"capacityType"`
	PricePerHour   string                                    `json:"pricePerHour"`
	ReservationID  *string                                   `json:"reservationID"`
	ReservationIDs []string                                  `json:"reservationIDs"`
	InstanceTypes  []string                                  `json:"instanceTypes"`
	Requirements   []v1.NodeSelectorRequirementWithMinValues `json:"requirements"`
	Requests       corev1.ResourceList                       `json:"requests"`
	Pods           []string                                  `json:"pods"`
}

type OnNode struct {
	Name string   `json:"name"`
	Pods []string `json:"pods"`
}

type Unplaced struct {
	Pod     string   `json:"pod"`
	Reasons []Reason `json:"reasons"`
}

// Reason has what Karpenter said as its text; it has no codes.
type Reason struct {
	Code    string `json:"code"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

type Cost struct {
	PerHour          string `json:"perHour"`
	BaselinePerHour  string `json:"baselinePerHour"`
	BaselineUnplaced int    `json:"baselineUnplaced"`
	Packing          string `json:"packing"`
}

func (w *world) document() Plan {
	bill := new(big.Rat)
	plan := Plan{
		APIVersion: "holdfast.dev/v1alpha1", Kind: "Plan",
		Claims: []Claim{}, Nodes: []OnNode{}, Unplaced: []Unplaced{}, Waiting: []Unplaced{}, NotReserved: []Unplaced{},
		SlotsLeft: map[string]int{},
	}
	for _, made := range w.launched {
		price := w.price(made)
		bill.Add(bill, price)
		plan.Claims = append(plan.Claims, w.claim(made, price))
	}
	sort.Slice(plan.Claims, func(i, j int) bool { return plan.Claims[i].order() < plan.Claims[j].order() })
	for name, pods := range w.onNodes {
		sort.Strings(pods)
		plan.Nodes = append(plan.Nodes, OnNode{name, pods})
	}
	sort.Slice(plan.Nodes, func(i, j int) bool { return plan.Nodes[i].Name < plan.Nodes[j].Name })
	for _, pod := range w.pending {
		name := fullName(pod)
		plan.Unplaced = append(plan.Unplaced, Unplaced{name, []Reason{{"Karpenter", "", w.refused[name]}}})
	}
	sort.Slice(plan.Unplaced, func(i, j int) bool { return plan.Unplaced[i].Pod < plan.Unplaced[j].Pod })
	plan.Cost = Cost{decimal(bill), decimal(bill), len(plan.Unplaced), "karpenter " + version}
	for id, one := range w.stock.reservations {
		for _, class := range w.scenario.classes {
			if class.selects(one) {
				plan.SlotsLeft[id] = one.free
			}
		}
	}
	return plan
}

func (c Claim) order() string {
	return strings.Join(append([]string{c.NodePool, c.InstanceType, c.Zone, c.CapacityType}, c.Pods...), "\x00")
}

// claim is written as open as Karpenter left it; one that a later round counted on, as what it had become by then.
func (w *world) claim(made *launched, price *big.Rat) Claim {
	wanted := scheduling.NewNodeSelectorRequirementsWithMinValues(made.wanted.Spec.Requirements...)
	if made.settled {
		wanted.Add(made.offering.Requirements.Values()...)
		for key, value := range made.wanted.Labels {
			// Where a label may be anything but some values, Karpenter makes up a number.
			if wanted.Get(key).Operator() == corev1.NodeSelectorOpIn {
				wanted.Add(in(key, value))
			}
		}
	}
	found := Claim{
		NodePool:       made.claim.NodePoolName,
		InstanceType:   made.known.Name,
		Zone:           made.offering.Zone(),
		CapacityType:   made.offering.CapacityType(),
		PricePerHour:   decimal(price),
		ReservationIDs: []string{},
		InstanceTypes:  []string{},
		Requirements:   wanted.NodeSelectorRequirements(),
		Requests:       resources.RequestsForPods(made.pods...),
		Pods:           []string{},
	}
	for _, pod := range made.pods {
		found.Pods = append(found.Pods, fullName(pod))
	}
	// What pods of later rounds came to, and what limits were left to them, is the machine that was there.
	alone := len(made.pods) != len(made.claim.Pods) || made.settled && !wanted.HasMinValues()
	for _, one := range made.claim.InstanceTypeOptions {
		// Of a claim for a slot Karpenter lists types that have none, which nobody launches.
		if one == made.known || !alone && one.Offerings.Available().HasCompatible(wanted) {
			found.InstanceTypes = append(found.InstanceTypes, one.Name)
		}
	}
	if found.CapacityType == v1.CapacityTypeReserved {
		id := made.offering.ReservationID()
		found.ReservationID = &id
		found.ReservationIDs = wanted.Get(reservationID).Values()
		sort.Strings(found.ReservationIDs)
	}
	sort.Strings(found.Pods)
	sort.Slice(found.Requirements, func(i, j int) bool { return found.Requirements[i].Key < found.Requirements[j].Key })
	return found
}

// price is that of the Catalog, exactly; a slot is paid for.
func (w *world) price(made *launched) *big.Rat {
	for _, known := range w.stock.spec.InstanceTypes {
		for _, offered := range known.Offerings {
			if known.Name == made.known.Name && offered.Reservation == nil && offered.Zone == made.offering.Zone() && offered.CapacityType == made.offering.CapacityType() {
				return exactPrice(offered.Price)
			}
		}
	}
	return new(big.Rat)
}

// single are the labels that requirements leave no choice about.
func single(requirements scheduling.Requirements) map[string]string {
	found := map[string]string{}
	for key, requirement := range requirements {
		if requirement.Operator() == corev1.NodeSelectorOpIn && requirement.Len() == 1 {
			found[key] = requirement.Any()
		}
	}
	return found
}

func decimal(price *big.Rat) string {
	text := strings.TrimRight(strings.TrimRight(price.FloatString(9), "0"), ".")
	if text == "" {
		return "0"
	}
	return text
}
