package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// finding is something that cdk-nag's AwsSolutions pack would complain of, and
// why it is so here.
type finding struct {
	id        string
	appliesTo string // the part of the finding that is meant; empty for all of it
	reason    string
}

// explain gives the reason for a finding.
func explain(on constructs.IConstruct, f finding) {
	s := &cdknag.NagPackSuppression{Id: &f.id, Reason: &f.reason}
	if f.appliesTo != "" {
		s.AppliesTo = &[]any{&f.appliesTo}
	}
	cdknag.NagSuppressions_AddResourceSuppressions(on, &[]*cdknag.NagPackSuppression{s}, jsii.Bool(false))
}

// check lets cdk-nag look at the app: a finding without a reason fails synthesis.
func check(app constructs.IConstruct) {
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Verbose: jsii.Bool(true)}), nil)
}
