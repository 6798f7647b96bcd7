package main

import (
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"
)

func TestNagFindsNothingUnexplained(t *testing.T) {
	app, stack := newTestStack(t, testFleet())
	check(app)
	annotations := assertions.Annotations_FromStack(stack)
	anything := assertions.Match_StringLikeRegexp(jsii.String("AwsSolutions-.*"))
	annotations.HasNoError(jsii.String("*"), anything) // panics, with what it found
	annotations.HasNoWarning(jsii.String("*"), anything)
	tmpl := plain(*assertions.Template_FromStack(stack, nil).ToJSON()).(map[string]any)
	explained := 0
	for id, r := range tmpl["Resources"].(map[string]any) {
		rules, _ := template(r.(map[string]any)).get("Metadata", "cdk_nag", "rules_to_suppress").([]any)
		for _, rule := range rules {
			explained++
			if reason, _ := rule.(map[string]any)["reason"].(string); !strings.HasSuffix(reason, ".") {
				t.Errorf("%s: reason %q is not a sentence", id, reason)
			}
		}
	}
	t.Logf("%d findings, each with its reason", explained)
}

// A check that finds nothing is worth something only if it would find.
func TestNagLooks(t *testing.T) {
	app, stack := newTestStack(t, testFleet())
	awss3.NewBucket(stack, jsii.String("Bucket"), nil)
	check(app)
	assertions.Annotations_FromStack(stack).HasError(jsii.String("/radwitness/Bucket/Resource"),
		assertions.Match_StringLikeRegexp(jsii.String("AwsSolutions-S.*")))
}
