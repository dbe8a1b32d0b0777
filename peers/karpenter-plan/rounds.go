package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"sort"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"
)

// Rounds in a cluster are endless; here a scenario that needs more has gone wrong.
const roundsMax = 1000

// concurrency is that of Karpenter's own benchmark.
const concurrency = 5

// world is a cluster in which pods are bound as soon as their node is launched.
type world struct {
	scenario *Scenario
	stock    *stock
	ctx      context.Context
	client   client.Client
	cluster  *state.Cluster
	provider *provider
	karp     *provisioning.Provisioner

	begun    bool // a round is over
	pending  []*corev1.Pod
	refused  map[string]string // by pod: what Karpenter said last
	launched []*launched
	onNodes  map[string][]string
}

// launched is a claim of Karpenter's with what the cheapest offering on its list makes of it.
type launched struct {
	name     string
	claim    *scheduling.NodeClaim
	wanted   *v1.NodeClaim // as Karpenter writes it, with a value for each label of the NodePool's own
	known    *cloudprovider.InstanceType
	offering *cloudprovider.Offering
	pods     []*corev1.Pod // those of its round, and of later ones
	settled  bool          // a later round counted on what it had become
}

// Round is what one decision took and brought.
type Round struct {
	SetupSeconds float64  `json:"setupSeconds"`
	SolveSeconds float64  `json:"solveSeconds"`
	CPUSeconds   float64  `json:"cpuSeconds"` // of solving, on all cores
	Pods         int      `json:"pods"`
	Placed       int      `json:"placed"`
	Claims       int      `json:"claims"`
	Slots        int      `json:"slots"`
	Deferred     int      `json:"deferred"`
	Later        []string `json:"later,omitempty"` // pods that only this round placed, if it is not the first
}

func newWorld(s *Scenario) (*world, error) {
	clock := clocktesting.NewFakeClock(s.catalog.Now)
	w := &world{scenario: s, stock: newStock(s.catalog, s.claims), refused: map[string]string{}, onNodes: map[string][]string{}}
	w.ctx = options.ToContext(injection.WithControllerName(context.Background(), "provisioner"), settings(s.catalog.Settings))
	w.client = fake.NewClientBuilder().WithScheme(scheme.Scheme).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithIndex(&corev1.Node{}, "spec.providerID", func(o client.Object) []string { return []string{o.(*corev1.Node).Spec.ProviderID} }).
		WithIndex(&v1.NodeClaim{}, "status.providerID", func(o client.Object) []string { return []string{o.(*v1.NodeClaim).Status.ProviderID} }).
		WithIndex(&storagev1.VolumeAttachment{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*storagev1.VolumeAttachment).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{Get: get}).
		Build()
	w.provider = &provider{}
	w.cluster = state.NewCluster(clock, w.client, w.provider)
	recorder := events.NewRecorder(&record.FakeRecorder{})
	w.karp = provisioning.NewProvisioner(w.client, recorder, w.provider, w.cluster, clock, nil, nil)
	if err := w.fill(); err != nil {
		return nil, err
	}
	displaced, err := w.cluster.DeepCopyNodes().Deleting().CurrentlyReschedulablePods(w.ctx, w.client, clock, recorder)
	w.pending = append(w.pending, displaced...)
	return w, err
}

// get forgives the namespace that Karpenter asks for a volume with, as a real server does and the fake one does not.
func get(ctx context.Context, under client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(*corev1.PersistentVolume); ok {
		key.Namespace = ""
	}
	return under.Get(ctx, key, obj, opts...)
}

func settings(written Settings) *options.Options {
	found := &options.Options{
		IgnoreDRARequests: true,
		PreferencePolicy:  options.PreferencePolicyRespect,
		MinValuesPolicy:   options.MinValuesPolicyStrict,
		FeatureGates:      options.FeatureGates{ReservedCapacity: written.ReservedCapacity == nil || *written.ReservedCapacity},
	}
	if written.PreferencePolicy != "" {
		found.PreferencePolicy = options.PreferencePolicy(written.PreferencePolicy)
	}
	if written.MinValuesPolicy != "" {
		found.MinValuesPolicy = options.MinValuesPolicy(written.MinValuesPolicy)
	}
	return found
}

// fill puts the scenario into the cluster, as the watches of Karpenter's controllers would.
func (w *world) fill() error {
	s := w.scenario
	for _, pool := range s.pools {
		if !pool.StatusConditions().Get("Ready").IsFalse() {
			pool.StatusConditions().SetTrue(v1.ConditionTypeValidationSucceeded)
			pool.StatusConditions().SetTrue(v1.ConditionTypeNodeClassReady)
		}
		s.others = append(s.others, pool)
	}
	for _, obj := range s.others {
		if err := w.create(obj); err != nil {
			return err
		}
	}
	for _, pod := range s.pods {
		pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
		if pod.Spec.NodeName != "" {
			if err := w.create(pod); err != nil {
				return err
			}
		} else if awaitsNode(pod) {
			w.pending = append(w.pending, pod)
		}
	}
	for _, claim := range s.claims {
		if err := w.addClaim(claim); err != nil {
			return err
		}
	}
	for _, node := range s.nodes {
		if err := w.addNode(node); err != nil {
			return err
		}
	}
	for _, pod := range s.pods {
		if pod.Spec.NodeName != "" {
			if err := w.cluster.UpdatePod(w.ctx, pod); err != nil {
				return err
			}
		}
	}
	for _, set := range s.daemons {
		if err := w.addDaemonSet(set); err != nil {
			return err
		}
	}
	return nil
}

// awaitsNode says whether a pod is Karpenter's to place once the kube-scheduler has tried.
func awaitsNode(pod *corev1.Pod) bool {
	if podutils.IsTerminal(pod) || podutils.IsTerminating(pod) || len(pod.Spec.SchedulingGates) > 0 {
		return false
	}
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
	})
	return podutils.IsProvisionable(pod)
}

func (w *world) create(obj client.Object) error {
	obj.SetResourceVersion("")
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 {
		obj.SetFinalizers([]string{v1.TerminationFinalizer})
	}
	return w.client.Create(w.ctx, obj)
}

func (w *world) addClaim(claim *v1.NodeClaim) error {
	status := claim.Status
	if err := w.create(claim); err != nil {
		return err
	}
	claim.Status = status
	w.cluster.UpdateNodeClaim(claim)
	return nil
}

func (w *world) addNode(node *corev1.Node) error {
	if err := w.create(node); err != nil {
		return err
	}
	return w.cluster.UpdateNode(w.ctx, node)
}

func (w *world) addDaemonSet(set *appsv1.DaemonSet) error {
	if err := w.create(set); err != nil {
		return err
	}
	return w.cluster.UpdateDaemonSet(w.ctx, set)
}

// settle runs rounds for as long as they place pods.
func (w *world) settle() ([]Round, error) {
	rounds := []Round{}
	for len(w.pending) > 0 && len(rounds) < roundsMax {
		round, err := w.round()
		if err != nil {
			return nil, err
		}
		if round.Placed == 0 {
			break
		}
		rounds = append(rounds, round)
	}
	return rounds, nil
}

func (w *world) round() (Round, error) {
	w.stockUp()
	began := time.Now()
	pods := w.valid()
	round := Round{Pods: len(pods)}
	scheduler, err := w.karp.NewScheduler(w.ctx, pods, w.cluster.DeepCopyNodes().Active(), sets.New[types.UID](), w.options()...)
	if err == provisioning.ErrNodePoolsNotFound {
		return round, nil
	} else if err != nil {
		return round, err
	}
	round.SetupSeconds = time.Since(began).Seconds()
	began, used := time.Now(), cpuSeconds()
	results, err := scheduler.Solve(w.ctx, pods)
	round.SolveSeconds, round.CPUSeconds = time.Since(began).Seconds(), cpuSeconds()-used
	if err != nil {
		return round, err
	}
	results = results.TruncateInstanceTypes(w.ctx, scheduling.MaxInstanceTypes)
	round.Deferred = len(results.ReservedOfferingErrors())
	for pod, err := range results.PodErrors {
		w.refused[fullName(pod)] = err.Error()
	}
	return round, w.carryOut(results, &round)
}

// cpuSeconds is what this process has used so far.
func cpuSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

func (w *world) options() []scheduling.Options {
	asked := options.FromContext(w.ctx)
	found := []scheduling.Options{
		scheduling.DisableReservedCapacityFallback,
		scheduling.NumConcurrentReconciles(concurrency),
		scheduling.MinValuesPolicy(asked.MinValuesPolicy),
	}
	if asked.PreferencePolicy == options.PreferencePolicyIgnore {
		found = append(found, scheduling.IgnorePreferences)
	}
	return found
}

// stockUp offers to each NodePool what its class may launch now.
func (w *world) stockUp() {
	w.provider.byPool = map[string][]*cloudprovider.InstanceType{}
	for _, pool := range w.scenario.pools {
		w.provider.byPool[pool.Name] = w.stock.types(w.scenario.classes[pool.Spec.Template.Spec.NodeClassRef.Name])
	}
}

// valid are the pending pods that Karpenter takes on.
func (w *world) valid() []*corev1.Pod {
	var found []*corev1.Pod
	for _, pod := range w.pending {
		if err := w.karp.Validate(w.ctx, pod); err != nil {
			w.refused[fullName(pod)] = err.Error()
			continue
		}
		found = append(found, pod)
	}
	return found
}

// carryOut launches the claims and binds the pods of a round.
func (w *world) carryOut(results scheduling.Results, round *Round) error {
	bound := map[types.UID]string{}
	for _, node := range results.ExistingNodes {
		for _, pod := range node.Pods {
			bound[pod.UID] = node.Name()
		}
	}
	first := len(w.launched)
	if len(bound)+len(results.NewNodeClaims) > 0 {
		for _, one := range w.launched {
			one.settled = true
		}
	}
	for _, claim := range results.NewNodeClaims {
		made, err := w.launch(claim)
		if err != nil {
			return err
		}
		w.launched = append(w.launched, made)
		for _, pod := range claim.Pods {
			bound[pod.UID] = made.name
		}
		if made.offering.CapacityType() == v1.CapacityTypeReserved {
			round.Slots++
		}
	}
	round.Claims, round.Placed = len(w.launched)-first, len(bound)
	byName := map[string]*launched{}
	for _, one := range w.launched {
		byName[one.name] = one
	}
	var left, moved []*corev1.Pod
	for _, pod := range w.pending {
		name, ok := bound[pod.UID]
		if !ok {
			left = append(left, pod)
			continue
		}
		moved = append(moved, pod)
		if w.begun {
			round.Later = append(round.Later, fullName(pod))
		}
		if made := byName[name]; made != nil {
			made.pods = append(made.pods, pod)
		} else {
			w.onNodes[name] = append(w.onNodes[name], fullName(pod))
		}
	}
	w.pending, w.begun = left, true
	if len(left) == 0 {
		return nil // nobody will look at the cluster again
	}
	for _, made := range w.launched[first:] {
		if err := w.join(made); err != nil {
			return err
		}
	}
	if err := w.awaken(bound); err != nil {
		return err
	}
	for _, pod := range moved {
		if err := w.bind(pod, bound[pod.UID]); err != nil {
			return err
		}
	}
	return nil
}

// launch takes the cheapest offering that the claim lists.
func (w *world) launch(claim *scheduling.NodeClaim) (*launched, error) {
	made := &launched{name: fmt.Sprintf("new-%04d", len(w.launched)), claim: claim, wanted: claim.ToNodeClaim()}
	best := math.Inf(1)
	known := append([]*cloudprovider.InstanceType{}, claim.InstanceTypeOptions...)
	sort.Slice(known, func(i, j int) bool { return known[i].Name < known[j].Name })
	for _, one := range known {
		for _, offering := range one.Offerings.Available().Compatible(claim.Requirements) {
			full := offering.CapacityType() == v1.CapacityTypeReserved && w.stock.reservations[offering.ReservationID()].free == 0
			if !full && offering.Price < best {
				best, made.known, made.offering = offering.Price, one, offering
			}
		}
	}
	if made.offering == nil {
		return nil, fmt.Errorf("a claim of NodePool %s lists no offering that can be launched", claim.NodePoolName)
	}
	if made.offering.CapacityType() == v1.CapacityTypeReserved {
		w.stock.reservations[made.offering.ReservationID()].free--
	}
	return made, nil
}

// join makes the node of a launched claim, ready at once.
func (w *world) join(made *launched) error {
	claim, labels := made.wanted.DeepCopy(), map[string]string{}
	maps.Copy(labels, single(made.known.Requirements))
	maps.Copy(labels, single(made.claim.Requirements))
	maps.Copy(labels, single(made.offering.Requirements))
	maps.Copy(labels, claim.Labels)
	claim.Name, claim.GenerateName, claim.Labels = made.name, "", labels
	claim.Status.ProviderID, claim.Status.NodeName = "catalog:///"+made.name, made.name
	claim.Status.Capacity, claim.Status.Allocatable = made.known.Capacity, made.known.Allocatable()
	for _, condition := range []string{v1.ConditionTypeLaunched, v1.ConditionTypeRegistered, v1.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(condition)
	}
	if err := w.addClaim(claim); err != nil {
		return err
	}
	return w.arrive(ready(made.name, claim))
}

// arrive adds a new node with the pods that DaemonSets put on it at once.
func (w *world) arrive(node *corev1.Node) error {
	if err := w.addNode(node); err != nil {
		return err
	}
	labels := requirements.NewLabelRequirements(node.Labels)
	for _, set := range w.scenario.daemons {
		pod := workload{set, "DaemonSet", 1, set.Spec.Template, nil}.pod(set.Name + "-" + node.Name)
		tolerated := requirements.Taints(node.Spec.Taints).ToleratesPod(pod) == nil
		if tolerated && labels.Compatible(requirements.NewPodRequirements(pod)) == nil {
			pod.UID = types.UID(fullName(pod))
			if err := w.bind(pod, node.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaken lets claims of the scenario that were on their way become nodes when pods are bound to them.
func (w *world) awaken(bound map[types.UID]string) error {
	wanted := sets.New[string]()
	for _, name := range bound {
		wanted.Insert(name)
	}
	for _, node := range w.scenario.nodes {
		wanted.Delete(node.Name)
	}
	for _, claim := range w.scenario.claims {
		if !wanted.Has(claim.Name) {
			continue
		}
		node := ready(claim.Name, claim)
		w.scenario.nodes = append(w.scenario.nodes, node)
		if err := w.arrive(node); err != nil {
			return err
		}
	}
	return nil
}

// ready is the node of a claim, initialized.
func ready(name string, claim *v1.NodeClaim) *corev1.Node {
	labels := maps.Clone(claim.Labels)
	labels[corev1.LabelHostname] = name
	labels[v1.NodeRegisteredLabelKey], labels[v1.NodeInitializedLabelKey] = "true", "true"
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: claim.Status.ProviderID, Taints: claim.Spec.Taints},
		Status: corev1.NodeStatus{
			Capacity: claim.Status.Capacity, Allocatable: claim.Status.Allocatable,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func (w *world) bind(pod *corev1.Pod, node string) error {
	pod.Spec.NodeName, pod.Status.Phase, pod.Status.Conditions = node, corev1.PodRunning, nil
	if err := w.create(pod); err != nil {
		return err
	}
	return w.cluster.UpdatePod(w.ctx, pod)
}

func fullName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
