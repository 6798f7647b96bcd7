package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"radwitness/pkg/fleet"
)

// stack is the whole system in one CloudFormation stack.
type stack struct {
	scope  awscdk.Stack // what everything is made in
	fleet  *fleet.Fleet
	deploy *fleet.Deploy
	name   string
	home   home
}

// home is where the target groups are, which is where the stack has to be.
type home struct {
	partition, region, account string
}

// homeOf reads the place of a target group from its ARN.
func homeOf(arn string) home {
	part := strings.SplitN(arn, ":", 6)
	return home{partition: part[1], region: part[3], account: part[4]}
}

// arn builds the ARN of a resource in the stack's account and Region.
func (h home) arn(service, resource string) string {
	return strings.Join([]string{"arn", h.partition, service, h.region, h.account, resource}, ":")
}

// newStack describes the system for a fleet whose Deploy is set. Account and
// Region are those of the target groups, so that the CLI refuses to deploy with
// another account's credentials.
func newStack(scope constructs.Construct, f *fleet.Fleet, code bundles) awscdk.Stack {
	where := homeOf(f.Groups[0].TargetGroups[0].ARN)
	s := &stack{fleet: f, deploy: f.Deploy, name: f.Deploy.StackName, home: where}
	s.scope = awscdk.NewStack(scope, &s.name, &awscdk.StackProps{
		StackName:   &s.name,
		Description: jsii.String("Probes RADIUS servers and keeps NLB target groups equal to the servers that authenticate"),
		Env:         &awscdk.Environment{Account: &where.account, Region: &where.region},
	})

	tables := s.newTables()
	queues := s.newQueues()
	network := s.newNetwork()
	functions := s.newFunctions(code, tables, queues, network)
	s.newEventSourceMapping(tables, queues, functions)
	s.newSchedules(queues, functions)
	alarms := s.newAlarms(queues, functions)
	s.newDashboard(queues, functions, alarms)
	s.newOutputs(tables, functions)
	return s.scope
}

// credentials lists the credentials that servers use, each once, in the order
// of their names.
func (s *stack) credentials() []fleet.Credential {
	names := map[string]bool{}
	for _, g := range s.fleet.Groups {
		for _, server := range g.Servers {
			names[server.Credential] = true
		}
	}
	var list []fleet.Credential
	for _, name := range slices.Sorted(maps.Keys(names)) {
		list = append(list, s.fleet.Credentials[name])
	}
	return list
}

// strs makes the pointers that the CDK wants.
func strs(list []string) *[]*string {
	pointers := make([]*string, len(list))
	for i := range list {
		pointers[i] = &list[i]
	}
	return &pointers
}
