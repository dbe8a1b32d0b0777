package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// Slots cost next to nothing, in the order of what they would cost on demand.
const reservedDivisor = 10_000_000

// stock is the Catalog with its reservations counted down as rounds take slots.
type stock struct {
	spec         CatalogSpec
	reservations map[string]*Reservation
}

func newStock(spec CatalogSpec, claims []*v1.NodeClaim) *stock {
	s := &stock{spec: spec, reservations: map[string]*Reservation{}}
	for i := range spec.Reservations {
		s.reservations[spec.Reservations[i].ID] = &spec.Reservations[i]
	}
	for _, known := range spec.InstanceTypes {
		for _, offered := range known.Offerings {
			if written := offered.Reservation; written != nil && s.reservations[written.ID] == nil {
				written.InstanceType, written.Zone, written.ZoneID = known.Name, offered.Zone, offered.ZoneID
				if offered.Healthy != nil && !*offered.Healthy {
					written.State = "unhealthy"
				}
				s.reservations[written.ID] = written
			}
		}
	}
	for _, one := range s.reservations {
		switch {
		case one.Available != nil:
			one.free = *one.Available
		case one.Total != nil:
			one.free = *one.Total
		}
		if one.Type == "" {
			one.Type = "default"
		}
		if one.MatchCriteria == "" {
			one.MatchCriteria = "open"
		}
	}
	// A slot that a claim on its way holds is still free in the cloud's count.
	for _, claim := range claims {
		held := s.reservations[claim.Annotations[reservationAnnotation]]
		if held != nil && held.free > 0 && !claim.StatusConditions().IsTrue(v1.ConditionTypeInitialized) {
			held.free--
		}
	}
	return s
}

// types are the instance types that a class could launch, with the reservations it selects as offerings.
func (s *stock) types(class *EC2NodeClass) []*cloudprovider.InstanceType {
	zoneIDs := map[string]string{}
	for _, known := range s.spec.InstanceTypes {
		for _, offered := range known.Offerings {
			if offered.ZoneID != "" {
				zoneIDs[offered.Zone] = offered.ZoneID
			}
		}
	}
	var found []*cloudprovider.InstanceType
	for _, known := range s.spec.InstanceTypes {
		var offerings cloudprovider.Offerings
		for _, offered := range known.Offerings {
			if offered.Reservation == nil {
				offerings = append(offerings, bought(offered))
			}
		}
		for _, one := range s.reservations {
			if one.InstanceType == known.Name && class.selects(one) && one.listed(s.spec) {
				offerings = append(offerings, s.reserved(one, class, offerings, zoneIDs))
			}
		}
		found = append(found, instanceType(known, offerings))
	}
	return found
}

func instanceType(known TypeSpec, offerings cloudprovider.Offerings) *cloudprovider.InstanceType {
	requirements := scheduling.NewRequirements(in(corev1.LabelInstanceTypeStable, known.Name))
	for key, values := range known.Labels {
		requirements.Add(in(key, values...))
	}
	zones, capacityTypes := []string{}, []string{}
	for _, offering := range offerings {
		zones, capacityTypes = append(zones, offering.Zone()), append(capacityTypes, offering.CapacityType())
	}
	requirements.Add(in(corev1.LabelTopologyZone, zones...), in(v1.CapacityTypeLabelKey, capacityTypes...))
	made := &cloudprovider.InstanceType{
		Name:         known.Name,
		Requirements: requirements,
		Offerings:    offerings,
		Capacity:     known.Capacity,
		Overhead:     &cloudprovider.InstanceTypeOverhead{KubeReserved: known.Overhead},
	}
	setVolumeLimits(made, known.VolumeLimits)
	return made
}

func in(key string, values ...string) *scheduling.Requirement {
	return scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, values...)
}

// bought is an offering on demand or at spot. One without a price is not launched, as on AWS.
func bought(offered OfferingSpec) *cloudprovider.Offering {
	price, known := priceOf(offered.Price)
	count := strings.Trim(string(offered.Available), `"`)
	healthy := offered.Healthy == nil || *offered.Healthy
	requirements := scheduling.NewRequirements(in(v1.CapacityTypeLabelKey, offered.CapacityType), in(corev1.LabelTopologyZone, offered.Zone))
	if offered.ZoneID != "" {
		requirements.Add(in(zoneID, offered.ZoneID))
	}
	for _, key := range []string{reservationID, reservationType, interruptible} {
		requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpDoesNotExist))
	}
	return &cloudprovider.Offering{Requirements: requirements, Price: price, Available: known && healthy && count != "0"}
}

func (s *stock) reserved(one *Reservation, class *EC2NodeClass, others cloudprovider.Offerings, zoneIDs map[string]string) *cloudprovider.Offering {
	price := 0.0
	for _, other := range others {
		if other.CapacityType() == v1.CapacityTypeOnDemand && (price == 0 || other.Zone() == one.Zone) {
			price = other.Price / reservedDivisor
		}
	}
	requirements := scheduling.NewRequirements(
		in(v1.CapacityTypeLabelKey, v1.CapacityTypeReserved),
		in(corev1.LabelTopologyZone, one.Zone),
		in(reservationID, one.ID),
		in(reservationType, one.Type),
		in(interruptible, strconv.FormatBool(one.Interruptible)),
	)
	if id := zoneIDs[one.Zone]; id != "" {
		requirements.Add(in(zoneID, id))
	}
	open := !one.draining(s.spec) && !class.expiring(one.ID)
	return &cloudprovider.Offering{
		Requirements:        requirements,
		Price:               price,
		Available:           open && (one.free > 0 || fullIsAvailable),
		ReservationCapacity: one.free,
	}
}

// listed says whether EC2 would name the reservation when asked for the active ones.
func (r *Reservation) listed(spec CatalogSpec) bool {
	active := r.State == "" || r.State == "active"
	begun := r.Start == nil || !r.Start.After(spec.Now)
	return active && begun && (r.End == nil || r.End.After(spec.Now))
}

// draining says whether a capacity block is so near its end that nothing is launched into it.
func (r *Reservation) draining(spec CatalogSpec) bool {
	return r.Type == "capacity-block" && r.End != nil && r.End.Sub(spec.Now).Seconds() <= blockDrainSeconds
}

func (c *EC2NodeClass) selects(one *Reservation) bool {
	if c == nil {
		return false
	}
	if len(c.Status.Reservations) > 0 {
		for _, resolved := range c.Status.Reservations {
			if resolved.ID == one.ID {
				return true
			}
		}
		return false
	}
	for _, term := range c.Spec.Terms {
		if term.selects(one) {
			return true
		}
	}
	return false
}

func (c *EC2NodeClass) expiring(id string) bool {
	for _, resolved := range c.Status.Reservations {
		if resolved.ID == id && resolved.State == "expiring" {
			return true
		}
	}
	return false
}

func (t SelectorTerm) selects(one *Reservation) bool {
	if t.ID != "" {
		return t.ID == one.ID
	}
	if t.OwnerID == "" && len(t.Tags) == 0 && t.MatchCriteria == "" {
		return false
	}
	if t.OwnerID != "" && t.OwnerID != one.OwnerID || t.MatchCriteria != "" && t.MatchCriteria != one.MatchCriteria {
		return false
	}
	for key, wanted := range t.Tags {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(wanted), `\*`, ".*")
		value, there := one.Tags[key]
		if !there || !regexp.MustCompile("^"+pattern+"$").MatchString(value) {
			return false
		}
	}
	return true
}

// priceOf reads dollars an hour; exact prices are added up elsewhere, from the same text.
func priceOf(raw json.RawMessage) (float64, bool) {
	exact := exactPrice(raw)
	if exact == nil {
		return 0, false
	}
	price, _ := exact.Float64()
	return price, true
}

func exactPrice(raw json.RawMessage) *big.Rat {
	text := strings.Trim(string(raw), `"`)
	if text == "" || text == "null" {
		return nil
	}
	exact, ok := new(big.Rat).SetString(text)
	if !ok {
		panic(fmt.Sprintf("%q is not a price", text))
	}
	return exact
}
