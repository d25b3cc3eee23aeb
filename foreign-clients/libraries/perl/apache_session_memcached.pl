use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Helpers;
use Apache::Session::Memcached;

my %options = (Servers => $address, NoRehash => 1);
tie my %session, 'Apache::Session::Memcached', undef, { %options };
$session{user} = 'ada';
my $id = $session{_session_id};
untie %session;
tie %session, 'Apache::Session::Memcached', $id, { %options };
show('session', $session{user});
tied(%session)->delete;
untie %session;
show('gone', eval { tie %session, 'Apache::Session::Memcached', $id, { %options }; 1 } ? 'there' : 'gone');
