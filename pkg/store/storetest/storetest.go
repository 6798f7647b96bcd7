// Package storetest creates the two tables in an emulator. The real ones are
// made by the CDK app; keys, stream and TTL here must be the same as there.
package storetest

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// CreateTables creates tables probes and health under the given names and
// returns the ARN of the stream of probes.
func CreateTables(ctx context.Context, db *dynamodb.Client, probes, health string) (streamARN string, err error) {
	out, err := db.CreateTable(ctx, table(probes, "server", &types.StreamSpecification{
		StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages,
	}))
	if err != nil {
		return "", fmt.Errorf("creating table %s: %w", probes, err)
	}
	if _, err := db.CreateTable(ctx, table(health, "item", nil)); err != nil {
		return "", fmt.Errorf("creating table %s: %w", health, err)
	}
	return aws.ToString(out.TableDescription.LatestStreamArn), nil
}

func table(name, sortKey string, stream *types.StreamSpecification) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:           &name,
		BillingMode:         types.BillingModePayPerRequest,
		StreamSpecification: stream,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("group"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: &sortKey, AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("group"), KeyType: types.KeyTypeHash},
			{AttributeName: &sortKey, KeyType: types.KeyTypeRange},
		},
	}
}
