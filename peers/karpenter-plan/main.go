// karpenter-plan answers the question of `holdfast plan` with Karpenter's own scheduler.
//
// It reads a scenario (docs/scenario.md) from standard input as one JSON list of documents, lets Karpenter's
// provisioner decide round after round as in a cluster, launches what each round asks for at the cheapest
// offering on its list, and prints the plan document. How long each round took goes to standard error, as JSON.
// The rule: every decision is Karpenter's; what is ours only reads, launches and writes down.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
)

func main() {
	log.SetLogger(logging.NopLogger)
	if err := run(os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "karpenter-plan:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out, told io.Writer) error {
	scenario, err := readScenario(in)
	if err != nil {
		return err
	}
	world, err := newWorld(scenario)
	if err != nil {
		return err
	}
	rounds, err := world.settle()
	if err != nil {
		return err
	}
	if err := json.NewEncoder(told).Encode(map[string]any{"karpenter": version, "rounds": rounds}); err != nil {
		return err
	}
	writer := json.NewEncoder(out)
	writer.SetIndent("", "  ")
	return writer.Encode(world.document())
}
