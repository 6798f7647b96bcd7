package lab

import (
	"fmt"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"radwitness/pkg/operator"
	"radwitness/pkg/probe/radiustest"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

// NewOperator looks at the lab as the operator's commands do at a deployment.
func (l *Lab) NewOperator() *operator.Operator {
	return &operator.Operator{
		Fleet: l.Fleet,
		Viewer: &reconciler.Reconciler{
			Fleet: l.Fleet, Probes: l.Probes, Health: l.Health, Balancer: l.balancer, Log: slog.New(slog.DiscardHandler),
		},
		History:   l.Health,
		Drains:    &store.Drains{DynamoDB: dynamodb.NewFromConfig(l.Operator), Table: l.Health.Table},
		Latencies: &operator.Metrics{CloudWatch: cloudwatch.NewFromConfig(l.Operator)},
	}
}

// Fault is how one of the lab's servers misbehaves now.
func (l *Lab) Fault(server string) (radiustest.Fault, error) {
	s, err := l.server(server)
	if err != nil {
		return radiustest.None, err
	}
	return s.Fault(), nil
}

// SetFault makes one of the lab's servers misbehave from now on.
func (l *Lab) SetFault(server string, f radiustest.Fault) error {
	s, err := l.server(server)
	if err != nil {
		return err
	}
	return s.SetFault(f)
}

// server finds one of the lab's own.
func (l *Lab) server(name string) (*radiustest.Server, error) {
	if !l.Faults() {
		return nil, fmt.Errorf("looking for server %s: only servers of the lab's can have faults", name)
	}
	for i, s := range l.Fleet.Groups[0].Servers {
		if s.Name == name {
			return l.servers[i], nil
		}
	}
	return nil, fmt.Errorf("there is no server %q", name)
}
