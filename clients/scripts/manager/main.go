// An operator as controller-runtime's users write it: an Orchard has a Deployment and a ConfigMap.
//
// It exercises what Go programs lean on: informers over WatchList, leader election by a Lease,
// server-side apply, a finalizer, a status that is patched apart, an index, owned children and
// events.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "shepherd.example/orchards"

var kind = schema.GroupVersionKind{Group: "shepherd.example", Version: "v1", Kind: "Orchard"}

type reconciler struct {
	client.Client
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	orchard := &unstructured.Unstructured{}
	orchard.SetGroupVersionKind(kind)
	if err := r.Get(ctx, request.NamespacedName, orchard); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !orchard.GetDeletionTimestamp().IsZero() {
		return ctrl.Result{}, r.fell(ctx, orchard)
	}
	if controllerutil.AddFinalizer(orchard, finalizer) {
		return ctrl.Result{}, r.Update(ctx, orchard)
	}
	trees, _, _ := unstructured.NestedInt64(orchard.Object, "spec", "trees")
	child, owner := deployment(orchard, int32(trees)), client.FieldOwner("orchards")
	if err := r.Apply(ctx, child, owner, client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.tell(ctx, orchard, trees)
}

// fell leaves a farewell, then lets the object go.
func (r *reconciler) fell(ctx context.Context, orchard *unstructured.Unstructured) error {
	farewell := &corev1.ConfigMap{}
	farewell.SetName(orchard.GetName() + "-farewell")
	farewell.SetNamespace(orchard.GetNamespace())
	if err := r.Create(ctx, farewell); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	before := orchard.DeepCopy()
	controllerutil.RemoveFinalizer(orchard, finalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return r.Patch(ctx, orchard, patch)
}

// tell patches the status to what the cache knows of the Deployment, found by an index.
func (r *reconciler) tell(ctx context.Context, orchard *unstructured.Unstructured, trees int64) error {
	var found appsv1.DeploymentList
	ours := client.MatchingFields{"owner": orchard.GetName()}
	if err := r.List(ctx, &found, client.InNamespace(orchard.GetNamespace()), ours); err != nil {
		return err
	}
	grown := int64(0)
	for _, one := range found.Items {
		grown += int64(one.Status.AvailableReplicas)
	}
	before := orchard.DeepCopy()
	status := map[string]any{
		"grown":              grown,
		"full":               grown == trees,
		"observedGeneration": orchard.GetGeneration(),
	}
	_ = unstructured.SetNestedMap(orchard.Object, status, "status")
	return r.Status().Patch(ctx, orchard, client.MergeFrom(before))
}

func deployment(
	orchard *unstructured.Unstructured, trees int32,
) *appsapply.DeploymentApplyConfiguration {
	labels := map[string]string{"orchard": orchard.GetName()}
	owner := metaapply.OwnerReference().
		WithAPIVersion(orchard.GetAPIVersion()).WithKind(orchard.GetKind()).
		WithName(orchard.GetName()).WithUID(orchard.GetUID()).
		WithController(true).WithBlockOwnerDeletion(true)
	container := coreapply.Container().WithName("main").WithImage("nginx:1.14.2")
	pod := coreapply.PodSpec().WithTerminationGracePeriodSeconds(1).WithContainers(container)
	return appsapply.Deployment(orchard.GetName(), orchard.GetNamespace()).WithOwnerReferences(owner).
		WithSpec(appsapply.DeploymentSpec().WithReplicas(trees).
			WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(coreapply.PodTemplateSpec().WithLabels(labels).WithSpec(pod)))
}

func owner(object client.Object) []string {
	if controller := metav1.GetControllerOf(object); controller != nil && controller.Kind == kind.Kind {
		return []string{controller.Name}
	}
	return nil
}

func run(namespace string) error {
	lease, renew, retry := 3*time.Second, 2*time.Second, 500*time.Millisecond
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Cache:                   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics:                 server.Options{BindAddress: "0"},
		LeaderElection:          true,
		LeaderElectionID:        "orchards",
		LeaderElectionNamespace: namespace,
		LeaseDuration:           &lease,
		RenewDeadline:           &renew,
		RetryPeriod:             &retry,
	})
	if err != nil {
		return err
	}
	child, index := &appsv1.Deployment{}, manager.GetFieldIndexer()
	if err := index.IndexField(context.Background(), child, "owner", owner); err != nil {
		return err
	}
	orchard := &unstructured.Unstructured{}
	orchard.SetGroupVersionKind(kind)
	builder := ctrl.NewControllerManagedBy(manager).Named("orchards").For(orchard).Owns(child)
	if err := builder.Complete(&reconciler{manager.GetClient()}); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
