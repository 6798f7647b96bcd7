// The CDK app: it puts the prober, the reconciler and all they need into an
// AWS account, as fleet.yaml says. Synthesis looks nothing up, so it needs no
// account. With the argument cost it prints what that costs a month instead.
package main

import (
	"fmt"
	"os"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"radwitness/infra/cost"
	"radwitness/pkg/fleet"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "cost" {
		os.Exit(cost.Command(os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(run())
}

// run synthesizes the app and returns the exit status.
func run() int {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	if err := synthesize(app, contextValue(app, "fleet"), "dist"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// contextValue returns a value that cdk.json or the CLI's -c gives.
func contextValue(app awscdk.App, key string) string {
	value, _ := app.Node().TryGetContext(&key).(string)
	return value
}

// synthesize writes the stack for a fleet file, around the functions in dist,
// into the app's output directory.
func synthesize(app awscdk.App, path, dist string) error {
	// The functions get their own environment, so overrides in this one must not
	// count.
	f, err := fleet.Load(path, nil)
	if err != nil {
		return err
	}
	if f.Deploy == nil {
		return &fleet.Error{File: path, Key: "deploy", Message: "is missing: it says where to deploy to, see docs/deploy.md"}
	}
	var code bundles
	for _, b := range []struct {
		function string
		dir      *string
	}{{"prober", &code.prober}, {"reconciler", &code.reconciler}} {
		*b.dir, err = stageBundle(dist, b.function, path, f.Files, f.Deploy.Architecture)
		if err != nil {
			return err
		}
	}
	newStack(app, f, code)
	check(app)
	app.Synth(nil)
	return nil
}
