package main

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

// newOutputs tells people what they need to look at the system by hand.
func (s *stack) newOutputs(t tables, f functions) {
	group := s.fleet.Groups[0]
	invoke := fmt.Sprintf(`aws lambda invoke --region %s --function-name %s --cli-binary-format raw-in-base64-out --payload '{"group":%q,"server":%q}' /dev/stdout`,
		s.home.region, s.functionName("prober"), group.Name, group.Servers[0].Name)
	for _, o := range []struct {
		id, description string
		value           *string
	}{
		{"ProbesTableName", "Newest result of every server", t.probes.TableName()},
		{"HealthTableName", "States, decisions and transitions", t.health.TableName()},
		{"ProberFunctionName", "The prober", f.prober.FunctionName()},
		{"ReconcilerFunctionName", "The reconciler", f.reconciler.FunctionName()},
		{"ProbeByHand", "Probes one server now, and records nothing", &invoke},
	} {
		awscdk.NewCfnOutput(s.scope, jsii.String(o.id), &awscdk.CfnOutputProps{Value: o.value, Description: &o.description})
	}
}
