package fleet

import (
	"reflect"
	"strings"
	"testing"
)

// deployed is minimal with a section deploy, which begins on line 10.
const deployed = `credentials:
  c: {secrets_manager: radius/c}
groups:
  - name: g
    credentials: c
    target_groups: [{arn: ` + arn + `}]
    servers:
      - {name: a, address: 10.0.0.1}
      - {name: b, address: 10.0.0.2}
deploy:
  vpc_id: vpc-0123456789abcdef0
  subnet_ids: [subnet-0123456789abcdef0, subnet-0fedcba9876543210]
  availability_zones: [eu-central-1a, eu-central-1b]
  reachable: [dynamodb, secretsmanager]
`

func TestDeployDefaults(t *testing.T) {
	f, err := Parse("f.yaml", []byte(deployed), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &Deploy{
		StackName: "radwitness", VPCID: "vpc-0123456789abcdef0",
		SubnetIDs:         []string{"subnet-0123456789abcdef0", "subnet-0fedcba9876543210"},
		AvailabilityZones: []string{"eu-central-1a", "eu-central-1b"},
		Reachable:         []Service{DynamoDB, SecretsManager},
		Architecture:      ARM64, Schedule: true, Shards: 1, ReserveConcurrency: true, LogRetentionDays: 30, RetainTables: true,
	}
	if !reflect.DeepEqual(f.Deploy, want) {
		t.Errorf("Deploy\n%+v\nwant\n%+v", f.Deploy, want)
	}
}

// Zero and false are values, not gaps for defaults to fill.
func TestDeployKeepsFalse(t *testing.T) {
	f, err := Parse("f.yaml", []byte(deployed+"  schedule: false\n  reserve_concurrency: false\n  retain_tables: false\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := f.Deploy; d.Schedule || d.ReserveConcurrency || d.RetainTables {
		t.Errorf("Deploy %+v, want schedule, reserve_concurrency and retain_tables false", d)
	}
}

func TestWithoutDeploy(t *testing.T) {
	f, err := Parse("f.yaml", []byte(minimal), nil)
	if err != nil || f.Deploy != nil {
		t.Errorf("Deploy %+v, error %v; want neither", f.Deploy, err)
	}
}

func TestDeployRefuses(t *testing.T) {
	const (
		reachable = "reachable: [dynamodb, secretsmanager]"
		own       = "endpoints: [dynamodb]\n  reachable: [secretsmanager]"
		tables    = "\n  route_table_ids: [rtb-0123456789abcdef0]"
		list      = "\n  dynamodb_prefix_list_id: pl-0123456789abcdef0"
	)
	for name, test := range map[string]struct {
		old, new string
		want     string // without the file's name, one error a line
	}{
		"unknown key":     {"vpc_id:", "vpc:", "10: deploy.vpc_id: is missing\n11: deploy.vpc: unknown key"},
		"no section":      {deployed[strings.Index(deployed, "deploy:"):], "deploy: yes\n", `10: deploy: must be a mapping, not "yes"`},
		"stack name":      {"vpc_id:", "stack_name: rad_witness\n  vpc_id:", `11: deploy.stack_name: "rad_witness" is not a stack name: use a letter and up to 49 letters, digits and hyphens`},
		"VPC":             {"vpc-0123456789abcdef0", "vpc-x", `11: deploy.vpc_id: "vpc-x" is not a VPC id (vpc-...)`},
		"subnet":          {"subnet-0123456789abcdef0", "sub", `12: deploy.subnet_ids[0]: "sub" is not a subnet id (subnet-...)`},
		"subnet twice":    {"subnet-0123456789abcdef0", "subnet-0fedcba9876543210", "12: deploy.subnet_ids[1]: subnet-0fedcba9876543210 is listed twice"},
		"no subnet":       {"[subnet-0123456789abcdef0, subnet-0fedcba9876543210]", "[]", "12: deploy.subnet_ids: needs at least one subnet\n13: deploy.availability_zones: needs the zone of each subnet, in the order of subnet_ids: there are 0 subnets and 2 zones"},
		"a zone too few":  {"[eu-central-1a, eu-central-1b]", "[eu-central-1a]", "13: deploy.availability_zones: needs the zone of each subnet, in the order of subnet_ids: there are 2 subnets and 1 zones"},
		"zone":            {"eu-central-1b", "b", `13: deploy.availability_zones[1]: "b" is not an Availability Zone`},
		"zone elsewhere":  {"eu-central-1b", "eu-west-1b", "13: deploy.availability_zones[1]: eu-west-1b is not in eu-central-1, where the target groups are"},
		"security group":  {reachable, reachable + "\n  security_group_id: web", `15: deploy.security_group_id: "web" is not a security group id (sg-...)`},
		"no way":          {reachable, "reachable: [dynamodb]", "10: deploy: the prober has no way to secretsmanager: put it under endpoints to create one, or under reachable if the subnets have one"},
		"unknown service": {"secretsmanager]", "secretsmanager, s3]", `14: deploy.reachable[2]: "s3" is not one of dynamodb, secretsmanager, ssm`},
		"service twice":   {"secretsmanager]", "secretsmanager, dynamodb]", "14: deploy.reachable[2]: dynamodb is listed twice"},
		"both ways":       {reachable, reachable + "\n  endpoints: [secretsmanager]", "15: deploy.endpoints[0]: secretsmanager is in both endpoints and reachable"},
		"unused endpoint": {reachable, reachable + "\n  endpoints: [ssm]", "15: deploy.endpoints[0]: no server's credentials come from ssm: its endpoint would cost money for nothing"},
		"no route tables": {reachable, own + list, "10: deploy.route_table_ids: is missing: the dynamodb endpoint has to be entered in the route tables of the subnets"},
		"idle tables":     {reachable, reachable + tables, "15: deploy.route_table_ids: is of use only with dynamodb under endpoints"},
		"no prefix list": {reachable, own + tables, "10: deploy.dynamodb_prefix_list_id: is missing: the security group has to name it; " +
			"aws ec2 describe-managed-prefix-lists --filters Name=prefix-list-name,Values=com.amazonaws.REGION.dynamodb tells it"},
		"idle prefix list": {reachable, reachable + list + "\n  security_group_id: sg-0123456789abcdef0", "15: deploy.dynamodb_prefix_list_id: is of use only without security_group_id"},
		"prefix list":      {reachable, reachable + "\n  dynamodb_prefix_list_id: dynamodb", `15: deploy.dynamodb_prefix_list_id: "dynamodb" is not a prefix list id (pl-...)`},
		"key":              {reachable, reachable + "\n  kms_keys: [alias/radius]", `15: deploy.kms_keys[0]: "alias/radius" is not the ARN of a KMS key`},
		"architecture":     {reachable, reachable + "\n  architecture: amd64", `15: deploy.architecture: "amd64" is not one of arm64, x86_64`},
		"schedule":         {reachable, reachable + "\n  schedule: off", `15: deploy.schedule: must be true or false, not "off"`},
		"no shards":        {reachable, reachable + "\n  shards: 0", "15: deploy.shards: must be 1 to 20, not 0"},
		"shards":           {reachable, reachable + "\n  shards: 21", "15: deploy.shards: must be 1 to 20, not 21"},
		"retention": {reachable, reachable + "\n  log_retention_days: 31",
			"15: deploy.log_retention_days: must be one of 1 3 5 7 14 30 60 90 120 150 180 365 400 545 731 1096 1827 2192 2557 2922 3288 3653, not 31"},
		"topic":       {reachable, reachable + "\n  alarm_topic: noc", `15: deploy.alarm_topic: "noc" is not the ARN of an SNS topic`},
		"topic there": {reachable, reachable + "\n  alarm_topic: arn:aws:sns:us-east-1:123456789012:noc", "15: deploy.alarm_topic: is in us-east-1, and the target groups in eu-central-1"},
		"email":       {reachable, reachable + "\n  alarm_email: noc", `15: deploy.alarm_email: "noc" is not an email address`},
		"two alarms": {reachable, reachable + "\n  alarm_topic: arn:aws:sns:eu-central-1:123456789012:noc\n  alarm_email: noc@example.com",
			"16: deploy.alarm_email: goes with a topic of its own: give either alarm_topic or alarm_email"},
		"secret there":    {"radius/c", "arn:aws:secretsmanager:us-east-1:123456789012:secret:c-AbCdEf", "2: credentials.c.secrets_manager: is in us-east-1, and the target groups in eu-central-1"},
		"parameter there": {"secrets_manager: radius/c}", "secrets_manager: radius/c}\n  d: {ssm: 'arn:aws:ssm:us-east-1:123456789012:parameter/d'}", "3: credentials.d.ssm: is in us-east-1, and the target groups in eu-central-1"},
		"two accounts": {"[{arn: " + arn + "}]", "[{arn: " + arn + "}, {arn: " + strings.Replace(arn, "123456789012", "210987654321", 1) + "}]",
			"6: groups[0].target_groups[1].arn: is in account 210987654321, eu-central-1, and the first target group in account 123456789012, eu-central-1: they need a file and a stack each"},
		"credentials of a laptop": {"secrets_manager: radius/c", "env: C", "2: credentials.c.env: cannot be deployed, the functions have no such variables: use secrets_manager or ssm"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(deployed, test.old) {
				t.Fatalf("deployed has no %s", test.old)
			}
			_, err := Parse("f.yaml", []byte(strings.Replace(deployed, test.old, test.new, 1)), nil)
			if err == nil {
				t.Fatal("accepted")
			}
			var got []string
			for line := range strings.Lines(err.Error()) {
				text, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "f.yaml:"), "; known here: ")
				got = append(got, text)
			}
			if text := strings.Join(got, "\n"); text != test.want {
				t.Errorf("got\n%s\nwant\n%s", text, test.want)
			}
		})
	}
}

func TestDeployWithEndpoints(t *testing.T) {
	file := strings.Replace(deployed, "reachable: [dynamodb, secretsmanager]",
		"endpoints: [dynamodb, secretsmanager]\n  route_table_ids: [rtb-0123456789abcdef0]\n  dynamodb_prefix_list_id: pl-0123456789abcdef0", 1)
	f, err := Parse("f.yaml", []byte(file), nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := f.Deploy; !reflect.DeepEqual(d.Endpoints, []Service{DynamoDB, SecretsManager}) || len(d.RouteTableIDs) != 1 || d.DynamoDBPrefixListID != "pl-0123456789abcdef0" {
		t.Errorf("Deploy %+v, want both endpoints, the route table and the prefix list", d)
	}
}
