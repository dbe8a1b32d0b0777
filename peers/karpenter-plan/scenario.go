package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Scenario is what was read, completed as the API server and its controllers would.
type Scenario struct {
	catalog CatalogSpec
	classes map[string]*EC2NodeClass
	pools   []*v1.NodePool
	claims  []*v1.NodeClaim
	nodes   []*corev1.Node
	pods    []*corev1.Pod
	daemons []*appsv1.DaemonSet
	others  []client.Object
	made    []client.Object // claims of StatefulSets
}

type CatalogSpec struct {
	Now             time.Time       `json:"now"`
	Settings        Settings        `json:"settings"`
	Region          string          `json:"region"`
	InstanceTypes   []TypeSpec      `json:"instanceTypes"`
	Reservations    []Reservation   `json:"reservations"`
	SchedulerConfig json.RawMessage `json:"schedulerConfig"`
}

// Settings are those that Karpenter has as well; the others are passed over.
type Settings struct {
	ReservedCapacity *bool  `json:"reservedCapacity"`
	PreferencePolicy string `json:"preferencePolicy"`
	MinValuesPolicy  string `json:"minValuesPolicy"`
	MaxInstanceTypes int    `json:"maxInstanceTypes"`
}

type TypeSpec struct {
	Name         string              `json:"name"`
	Labels       map[string]Values   `json:"labels"`
	Capacity     corev1.ResourceList `json:"capacity"`
	Overhead     corev1.ResourceList `json:"overhead"`
	VolumeLimits map[string]int      `json:"volumeLimits"`
	Offerings    []OfferingSpec      `json:"offerings"`
}

type OfferingSpec struct {
	Zone         string          `json:"zone"`
	ZoneID       string          `json:"zoneID"`
	CapacityType string          `json:"capacityType"`
	Price        json.RawMessage `json:"price"`
	Available    json.RawMessage `json:"available"`
	Healthy      *bool           `json:"healthy"`
	Reservation  *Reservation    `json:"reservation"`
}

type Reservation struct {
	ID            string            `json:"id"`
	InstanceType  string            `json:"instanceType"`
	Zone          string            `json:"zone"`
	ZoneID        string            `json:"zoneID"`
	Type          string            `json:"type"`
	Interruptible bool              `json:"interruptible"`
	OwnerID       string            `json:"ownerID"`
	Tags          map[string]string `json:"tags"`
	MatchCriteria string            `json:"instanceMatchCriteria"`
	Total         *int              `json:"total"`
	Available     *int              `json:"available"`
	Start         *time.Time        `json:"start"`
	End           *time.Time        `json:"end"`
	State         string            `json:"state"`

	free int
}

// Values of a label: one text or a list of texts.
type Values []string

func (v *Values) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*v = Values{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(v))
}

func readScenario(in io.Reader) (*Scenario, error) {
	var documents []json.RawMessage
	if err := json.NewDecoder(in).Decode(&documents); err != nil {
		return nil, fmt.Errorf("reading a JSON list of documents, %w", err)
	}
	s := &Scenario{classes: map[string]*EC2NodeClass{}}
	found := false
	for _, raw := range documents {
		var kind metav1.TypeMeta
		if err := json.Unmarshal(raw, &kind); err != nil {
			return nil, err
		}
		if kind.Kind == "Catalog" {
			found = true
			if err := json.Unmarshal(raw, &struct {
				Spec *CatalogSpec `json:"spec"`
			}{&s.catalog}); err != nil {
				return nil, fmt.Errorf("reading the Catalog, %w", err)
			}
			continue
		}
		decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("reading %s, %w", kind.Kind, err)
		}
		s.add(decoded.(client.Object))
	}
	if !found {
		return nil, fmt.Errorf("no Catalog among the documents")
	}
	if s.catalog.Region != "" || s.catalog.SchedulerConfig != nil {
		return nil, fmt.Errorf("neither region nor schedulerConfig of a Catalog is read: write the instance types and the spreads")
	}
	if s.catalog.Now.IsZero() {
		s.catalog.Now = time.Now()
	}
	s.expandWorkloads()
	s.completeClaims()
	s.completeNamespaces()
	return s, nil
}

func (s *Scenario) add(read client.Object) {
	switch obj := read.(type) {
	case *EC2NodeClass:
		s.classes[obj.Name] = obj
		return
	case *v1.NodePool:
		s.pools = append(s.pools, obj)
		return
	case *v1.NodeClaim:
		s.claims = append(s.claims, obj)
		return
	case *corev1.Node:
		s.nodes = append(s.nodes, obj)
		return
	}
	switch read.(type) {
	case *corev1.Namespace, *corev1.PersistentVolume, *storagev1.StorageClass, *storagev1.CSINode:
	default:
		if read.GetNamespace() == "" {
			read.SetNamespace(metav1.NamespaceDefault)
		}
	}
	switch obj := read.(type) {
	case *corev1.Pod:
		s.pods = append(s.pods, obj)
	case *appsv1.DaemonSet:
		s.daemons = append(s.daemons, obj)
	default:
		s.others = append(s.others, obj)
	}
}

// workload is any kind that stands for pods.
type workload struct {
	object   client.Object
	kind     string
	count    int32
	template corev1.PodTemplateSpec
	volumes  []corev1.PersistentVolumeClaim
}

func (s *Scenario) expandWorkloads() {
	var kept []client.Object
	for _, obj := range s.others {
		switch w := obj.(type) {
		case *appsv1.Deployment:
			s.expand(workload{w, "Deployment", replicas(w.Spec.Replicas), w.Spec.Template, nil})
		case *appsv1.ReplicaSet:
			s.expand(workload{w, "ReplicaSet", replicas(w.Spec.Replicas), w.Spec.Template, nil})
		case *appsv1.StatefulSet:
			s.expand(workload{w, "StatefulSet", replicas(w.Spec.Replicas), w.Spec.Template, w.Spec.VolumeClaimTemplates})
		case *batchv1.Job:
			count := replicas(w.Spec.Parallelism)
			if w.Spec.Completions != nil {
				count = max(0, min(count, *w.Spec.Completions-w.Status.Succeeded))
			}
			s.expand(workload{w, "Job", count, w.Spec.Template, nil})
		default:
			kept = append(kept, obj)
		}
	}
	s.others = append(kept, s.made...)
	for _, pod := range s.pods {
		for _, volume := range pod.Spec.Volumes {
			if volume.Ephemeral != nil && volume.Ephemeral.VolumeClaimTemplate != nil {
				s.others = append(s.others, newClaim(pod.Namespace, pod.Name+"-"+volume.Name, volume.Ephemeral.VolumeClaimTemplate.Spec))
			}
		}
	}
}

func newClaim(namespace, name string, spec corev1.PersistentVolumeClaimSpec) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
}

func replicas(written *int32) int32 {
	if written == nil {
		return 1
	}
	return *written
}

// expand adds the pods that a workload lacks: a StatefulSet's numbers are its own, others take those that nobody has.
func (s *Scenario) expand(w workload) {
	taken, missing := map[string]bool{}, w.count
	for _, pod := range s.pods {
		if pod.Namespace != w.object.GetNamespace() {
			continue
		}
		taken[pod.Name] = true
		for _, owner := range pod.OwnerReferences {
			if owner.Kind == w.kind && owner.Name == w.object.GetName() && w.kind != "StatefulSet" {
				missing--
			}
		}
	}
	for number := int32(0); missing > 0; number++ {
		name := fmt.Sprintf("%s-%d", w.object.GetName(), number)
		if !taken[name] {
			pod := w.pod(name)
			s.pods = append(s.pods, pod)
			for _, template := range w.volumes {
				s.made = append(s.made, newClaim(pod.Namespace, template.Name+"-"+name, template.Spec))
			}
		}
		if !taken[name] || w.kind == "StatefulSet" {
			missing--
		}
	}
}

func (w workload) pod(name string) *corev1.Pod {
	template, yes := w.template.DeepCopy(), true
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name, pod.Namespace = name, w.object.GetNamespace()
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: w.kind, Name: w.object.GetName(), UID: w.object.GetUID(), Controller: &yes,
	}}
	for _, claim := range w.volumes {
		source := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-" + name}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: claim.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: source},
		})
	}
	return pod
}

// completeClaims gives the default class to claims without one, and binds those that name a volume.
func (s *Scenario) completeClaims() {
	var standard *string
	for _, obj := range s.others {
		class, ok := obj.(*storagev1.StorageClass)
		if ok && class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" && (standard == nil || class.Name < *standard) {
			standard = &class.Name
		}
	}
	for _, obj := range s.others {
		claim, ok := obj.(*corev1.PersistentVolumeClaim)
		if !ok || claim.Status.Phase != "" {
			continue
		}
		if claim.Spec.VolumeName != "" {
			claim.Status.Phase = corev1.ClaimBound
		} else if claim.Spec.StorageClassName == nil {
			claim.Spec.StorageClassName = standard
		}
	}
}

func (s *Scenario) completeNamespaces() {
	known := map[string]*corev1.Namespace{}
	for _, obj := range s.others {
		if namespace, ok := obj.(*corev1.Namespace); ok {
			known[namespace.Name] = namespace
		}
	}
	for _, pod := range s.pods {
		if known[pod.Namespace] == nil {
			made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}
			known[pod.Namespace] = made
			s.others = append(s.others, made)
		}
	}
	for name, namespace := range known {
		if namespace.Labels == nil {
			namespace.Labels = map[string]string{}
		}
		namespace.Labels[corev1.LabelMetadataName] = name
	}
}
